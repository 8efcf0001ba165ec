package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// podLogStream is the log of one container.
type podLogStream struct {
	pod       *corev1.Pod
	container string
}

func (r *logsRun) workspacePods(ctx context.Context, name string) error {
	ws, err := r.cluster.Workspace(ctx, name)
	if err != nil {
		return err
	}
	pods, where, err := r.cluster.WorkspacePods(ctx, ws, r.podNamespaces)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("workspace %s has no pod in %s with the label com.coder.workspace.id=%s: it is %s, "+
			"its template sets no such label, or its pods are elsewhere (--pod-namespace)",
			ws.Name, strings.Join(where, ", "), ws.Status.ID, strings.ToLower(ws.Status.Phase))
	}
	return r.pods(ctx, pods)
}

func (r *logsRun) controlPlane(ctx context.Context, name string) error {
	cp, err := r.cluster.ControlPlane(ctx, name)
	if err != nil {
		return err
	}
	pods, err := r.cluster.PodsOf(ctx, cp.Namespace, cp.Name)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("control plane %s/%s has no pod: see kubectl coder status -n %s", cp.Namespace, cp.Name, cp.Namespace)
	}
	return r.pods(ctx, pods)
}

// pods prints the logs of the containers one after the other, or interleaved with --follow. If
// there are several containers, each line is prefixed with its pod and container.
func (r *logsRun) pods(ctx context.Context, pods []corev1.Pod) error {
	streams, err := r.streams(pods)
	if err != nil {
		return err
	}
	if !r.follow {
		for _, s := range streams {
			if err := r.copy(ctx, s, len(streams) > 1, r.write); err != nil {
				return err
			}
		}
		return nil
	}
	var mu sync.Mutex
	write := func(prefix, line string) error {
		mu.Lock()
		defer mu.Unlock()
		return r.write(prefix, line)
	}
	failed := make([]error, len(streams))
	var following sync.WaitGroup
	for i, s := range streams {
		following.Go(func() { failed[i] = r.copy(ctx, s, len(streams) > 1, write) })
	}
	following.Wait()
	return errors.Join(failed...)
}

func (r *logsRun) streams(pods []corev1.Pod) ([]podLogStream, error) {
	var streams []podLogStream
	var known []string
	for i := range pods {
		for _, c := range pods[i].Spec.Containers {
			known = append(known, c.Name)
			if r.container == "" || r.container == c.Name {
				streams = append(streams, podLogStream{&pods[i], c.Name})
			}
		}
	}
	if len(streams) == 0 {
		slices.Sort(known)
		return nil, cli.Usage("--container: there is no %q, only %s", r.container, strings.Join(slices.Compact(known), ", "))
	}
	return streams, nil
}

func (r *logsRun) copy(ctx context.Context, s podLogStream, several bool, write func(prefix, line string) error) error {
	options := &corev1.PodLogOptions{Container: s.container, Follow: r.follow, Previous: r.previous}
	if r.tail >= 0 {
		options.TailLines = ptr.To(r.tail)
	}
	log, err := r.cluster.Kube.CoreV1().Pods(s.pod.Namespace).GetLogs(s.pod.Name, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("the log of container %s of pod %s/%s: %w", s.container, s.pod.Namespace, s.pod.Name, err)
	}
	defer func() { _ = log.Close() }()
	prefix := ""
	if several {
		prefix = "[" + s.pod.Name + "/" + s.container + "] "
	}
	if err := eachLine(log, func(line string) error { return write(prefix, line) }); err != nil {
		return fmt.Errorf("reading the log of container %s of pod %s/%s: %w", s.container, s.pod.Namespace, s.pod.Name, err)
	}
	return nil
}
