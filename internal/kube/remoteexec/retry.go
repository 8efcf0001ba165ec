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

// attempts returns the backoff for a request that reaches no server. For a moment after a replica
// was killed, its Service still routes to it.
func attempts() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 7}
}

// patience returns how long all attempts take if each fails immediately.
func patience() time.Duration {
	total, next := time.Duration(0), attempts()
	for next.Steps > 1 {
		total += next.Step()
	}
	return total
}

// Retry calls try repeatedly, for a few seconds, as long as again returns true for its error.
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

// kube-apiserver returns 503 with a plain text if it cannot proxy a request. The text begins with
// dialError if nothing was sent, including a failed TLS handshake. It is noEndpoint if there is no
// address to dial.
const (
	refusedSocket = "(503 Service Unavailable): "
	refusedSPDY   = "unable to upgrade connection: "
	refusedPod    = "error upgrading connection: "
	noEndpoint    = "service unavailable"
	dialError     = "error dialing backend: "
)

// unreached reports whether kube-apiserver could not connect to the aggregated API, so that no
// session can have started.
func unreached(err error) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{refusedSocket, refusedSPDY}, func(prefix string) bool {
		prefix = strings.ToLower(prefix)
		return strings.Contains(text, prefix+noEndpoint) || strings.Contains(text, prefix+dialError)
	})
}

// lost reports whether kube-apiserver connected to the aggregated API but got no response, so that
// the command may run.
func lost(err error) bool {
	var status *apierrors.StatusError
	if errors.As(statusOf(err), &status) && status.ErrStatus.Status == "" {
		// client-go parsed a text like "error sending request: EOF" as the YAML of an empty status.
		return true
	}
	return strings.Contains(err.Error(), refusedSocket) && !unreached(err)
}

// message returns an error with the server's message only, without what client-go writes before it.
func message(err error) error {
	if err == nil {
		return nil
	}
	if text, found := strings.CutPrefix(strings.TrimPrefix(err.Error(), refusedPod), refusedSPDY); found {
		return errors.New(text)
	}
	return err
}
