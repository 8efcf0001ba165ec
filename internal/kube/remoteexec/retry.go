package remoteexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// attempts returns how often a request is sent that reaches nobody. For a moment after
// a replica was killed, its Service still routes to it.
func attempts() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 7}
}

// patience returns how long all attempts take if each fails at once.
func patience() time.Duration {
	total, next := time.Duration(0), attempts()
	for next.Steps > 1 {
		total += next.Step()
	}
	return total
}

// Retry calls try again, for a few seconds, while again accepts its error.
func Retry(ctx context.Context, again func(error) bool, try func() error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, attempts(), func(context.Context) (bool, error) {
		last = try()
		return last == nil || !again(last), nil
	})
	if last == nil {
		return err
	}
	return last
}

// kube-apiserver answers 503 with a plain text if it fails to pass a request on. It
// begins with dialError before anything was sent, the TLS handshake included, and is
// noEndpoint if there is no address to dial.
const (
	refusedSocket = "(503 Service Unavailable): "
	refusedSPDY   = "unable to upgrade connection: "
	noEndpoint    = "service unavailable"
	dialError     = "error dialing backend: "
)

// unreached reports whether kube-apiserver could not connect to the aggregated API. Then
// certainly no session began.
func unreached(err error) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{refusedSocket, refusedSPDY}, func(prefix string) bool {
		prefix = strings.ToLower(prefix)
		return strings.Contains(text, prefix+noEndpoint) || strings.Contains(text, prefix+dialError)
	})
}

// lost reports whether kube-apiserver connected to the aggregated API and got no answer:
// the command may run.
func lost(err error) bool {
	var status *apierrors.StatusError
	if errors.As(statusOf(err), &status) && status.ErrStatus.Status == "" {
		// client-go has read a text like "error sending request: EOF" as YAML of an empty status.
		return true
	}
	return strings.Contains(err.Error(), refusedSocket) && !unreached(err)
}
