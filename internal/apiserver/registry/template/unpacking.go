package template

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxUnpacking limits the archives that are in memory at once, each packed and unpacked.
	// Together they fit into the default memory limit of the process.
	maxUnpacking = 2
	// maxWaiting limits the requests that wait for a slot.
	maxWaiting = 8
	// maxWait limits how long one of them waits.
	maxWait = 20 * time.Second
	// tryAgain is the Retry-After of a rejected request, in seconds.
	tryAgain = 5
)

// unpacking limits how many archives are in memory at once.
type unpacking struct {
	running, waiting chan struct{}
	wait             time.Duration
}

func newUnpacking() *unpacking {
	return &unpacking{running: make(chan struct{}, maxUnpacking), waiting: make(chan struct{}, maxWaiting), wait: maxWait}
}

// begin waits until an archive may be read into memory. The error is an API status: 429 if there
// are too many requests.
func (u *unpacking) begin(ctx context.Context) (done func(), err error) {
	select {
	case u.running <- struct{}{}:
		return u.end, nil
	default:
	}
	select {
	case u.waiting <- struct{}{}:
		defer func() { <-u.waiting }()
	default:
		return nil, tooMany()
	}
	ctx, cancel := context.WithTimeout(ctx, u.wait)
	defer cancel()
	select {
	case u.running <- struct{}{}:
		return u.end, nil
	case <-ctx.Done():
		return nil, tooMany()
	}
}

func (u *unpacking) end() { <-u.running }

func tooMany() error {
	return apierrors.NewTooManyRequests(fmt.Sprintf(
		"%d archives of templates are being unpacked and %d wait, which is as many as this server takes at once; send it again later",
		maxUnpacking, maxWaiting), tryAgain)
}
