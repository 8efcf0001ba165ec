package installation

import (
	"fmt"
	"time"
)

// Problem is something that is missing in an installation, or in its way.
type Problem struct {
	// Object is what it is about, for example
	// "CustomResourceDefinition codercontrolplanes.coder.com".
	Object string `json:"object"`
	// What is wrong, without an end, for example "is missing".
	What string `json:"what"`
	// Do is the next step for a person.
	Do string `json:"do"`
	// Since is since when it is so, where that is known.
	Since *time.Time `json:"since,omitempty"`
	// Blocks says that nothing works before this is mended.
	Blocks bool `json:"blocks,omitempty"`
	// MayPass says that it is also so for a moment while an operator starts.
	MayPass bool `json:"-"`
}

// String is one sentence and what to do.
func (p Problem) String() string { return fmt.Sprintf("%s %s: %s", p.Object, p.What, p.Do) }
