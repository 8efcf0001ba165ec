package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	tailLines = 60
	tailBytes = 64 * 1024
)

// PodLogs reads the last lines of a container's log.
type PodLogs interface {
	Tail(ctx context.Context, request LogRequest) (string, error)
}

// LogRequest names a part of a container's log.
type LogRequest struct {
	Namespace, Pod, Container string
	// Previous reads the log of the container before the last restart.
	Previous bool
	// Since leaves out older lines. 0 means all.
	Since time.Duration
}

// podLogs reads logs from the API server.
type podLogs struct{ client kubernetes.Interface }

// Tail implements PodLogs.
func (p podLogs) Tail(ctx context.Context, request LogRequest) (string, error) {
	options := &corev1.PodLogOptions{
		Container:  request.Container,
		Previous:   request.Previous,
		TailLines:  ptr.To[int64](tailLines),
		LimitBytes: ptr.To[int64](tailBytes),
	}
	if request.Since > 0 {
		options.SinceSeconds = ptr.To(int64(request.Since.Seconds()))
	}
	text, err := p.client.CoreV1().Pods(request.Namespace).GetLogs(request.Pod, options).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of container %q: %w", request.Container, err)
	}
	return string(text), nil
}

// noLogs is a PodLogs that returns no logs.
type noLogs struct{}

// Tail implements PodLogs.
func (noLogs) Tail(context.Context, LogRequest) (string, error) { return "", nil }
