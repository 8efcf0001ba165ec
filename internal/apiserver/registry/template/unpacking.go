package template

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxUnpacking is how many archives are in memory at once, each packed and
	// unpacked. Together they fit into the memory that the process has by default.
	maxUnpacking = 2
	// maxWaiting is how many requests wait for that.
	maxWaiting = 8
	// maxWait is how long one of them waits.
	maxWait = 20 * time.Second
	// tryAgain is when a client that is sent away should come back, in seconds.
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

// begin waits until an archive may be read into memory. The error is an API status,
// 429 if there are too many.
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
