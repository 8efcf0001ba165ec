package installation

import (
	"fmt"
	"time"
)

// Problem is a defect of an installation.
type Problem struct {
	// Object is the object with the defect, for example "CustomResourceDefinition
	// codercontrolplanes.coder.com".
	Object string `json:"object"`
	// What describes the defect, without a period, for example "is missing".
	What string `json:"what"`
	// Do is the next step for the user.
	Do string `json:"do"`
	// Since is when the problem began, if known.
	Since *time.Time `json:"since,omitempty"`
	// Blocks reports that nothing works before this problem is solved.
	Blocks bool `json:"blocks,omitempty"`
	// MayPass reports that the problem may also exist temporarily while an operator starts.
	MayPass bool `json:"-"`
}

// String returns the problem and the next step in one line.
func (p Problem) String() string { return fmt.Sprintf("%s %s: %s", p.Object, p.What, p.Do) }
