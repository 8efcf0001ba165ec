package registry

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// causeWithin is the maximum difference between the end of a failed build whose log is read, by Coder's clock, and now. Without
// it, the first sync of a Coder deployment with many failed builds would read many logs.
const causeWithin = 24 * time.Hour

// MaxBuilds limits how many builds a cache remembers. A finished build never changes. A cache only
// bridges the time until the cached value is stored in an object or its record.
const MaxBuilds = 1024

// Causes finds the error of Terraform for builds whose error in Coder is only an exit status. It is
// safe for concurrent use.
type Causes struct {
	clock clock.PassiveClock
	// known maps builds to the error of Terraform. The error is empty if the log has none.
	known *lru.Cache
}

// NewCauses returns Causes with an empty cache.
func NewCauses(c clock.PassiveClock) *Causes { return &Causes{clock: c, known: lru.New(MaxBuilds)} }

// Learn reads the log of a failed build once, if Coder does not report why it failed.
func (c *Causes) Learn(ctx context.Context, build uuid.UUID, reported string, ended time.Time,
	read func(context.Context, uuid.UUID) (string, error),
) {
	if _, known := c.known.Get(build); known || !strings.Contains(reported, "exit status") || c.clock.Since(ended).Abs() > causeWithin {
		return
	}
	cause, err := read(ctx, build)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Could not read the log of a failed build for the error of Terraform", "id", build, "reason", err.Error())
		return
	}
	c.known.Add(build, cause)
}

// Get returns the error of Terraform, and "" if it is not known.
func (c *Causes) Get(build uuid.UUID) string {
	known, _ := c.known.Get(build)
	cause, _ := known.(string)
	return cause
}
