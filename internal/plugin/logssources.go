package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

func (r *logsRun) workspace(ctx context.Context, name string) error {
	ws, err := r.cluster.Workspace(ctx, name)
	if err != nil {
		return err
	}
	parameters := map[string]string{"agent": r.agentName, "script": r.script}
	if r.build != 0 {
		parameters["build"] = strconv.Itoa(int(r.build))
	}
	if r.scripts {
		parameters["source"] = "agent"
	}
	return r.print(ctx, ws, parameters)
}

func (r *logsRun) template(ctx context.Context, name string) error {
	tmpl, err := r.cluster.Template(ctx, name)
	if err != nil {
		return err
	}
	parameters := map[string]string{}
	if r.version != "" {
		version, err := r.cluster.TemplateVersion(ctx, tmpl, r.version)
		if err != nil {
			return err
		}
		parameters["version"] = version.ID
	}
	return r.print(ctx, tmpl, parameters)
}

// print writes the log in Coder of a workspace or template, or its last lines. With --follow and
// --tail it first counts the existing lines.
func (r *logsRun) print(ctx context.Context, of client.Object, parameters map[string]string) error {
	skip := 0
	if r.tail >= 0 {
		lines := 0
		if err := r.each(ctx, of, parameters, func(string) error { lines++; return nil }); err != nil {
			return err
		}
		skip = max(0, lines-int(r.tail))
	}
	if r.follow {
		parameters["follow"] = "true"
	}
	return r.each(ctx, of, parameters, func(line string) error {
		if skip--; skip >= 0 {
			return nil
		}
		return r.write("", line)
	})
}

// each calls take for each line of the log.
func (r *logsRun) each(ctx context.Context, of client.Object, parameters map[string]string, take func(line string) error) error {
	stream, err := r.cluster.subresource(http.MethodGet, of, "log", parameters).Stream(ctx)
	if apierrors.IsBadRequest(err) {
		// The build number or the version does not exist.
		return cli.Usage("the log of %s: %v", of.GetName(), err)
	}
	if err != nil {
		return fmt.Errorf("the log of %s: %w", of.GetName(), err)
	}
	defer func() { _ = stream.Close() }()
	if err := eachLine(stream, take); err != nil {
		return fmt.Errorf("reading the log of %s: %w", of.GetName(), err)
	}
	return nil
}

// write writes one line with a prefix.
func (r *logsRun) write(prefix, line string) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.Screen {
		line = cli.Visible(line)
	}
	_, err := fmt.Fprintln(r.Out, prefix+line)
	return err
}

// eachLine calls take for each line without its line break. The length of a line is not limited.
func eachLine(stream io.Reader, take func(line string) error) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := take(strings.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

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
			if err := r.copy(ctx, s, len(streams) > 1); err != nil {
				return err
			}
		}
		return nil
	}
	failed := make([]error, len(streams))
	var following sync.WaitGroup
	for i, s := range streams {
		following.Go(func() { failed[i] = r.copy(ctx, s, len(streams) > 1) })
	}
	following.Wait()
	return errors.Join(failed...)
}

func (r *logsRun) streams(pods []corev1.Pod) ([]podLogStream, error) {
	var streams []podLogStream
	var known []string
	for i := range pods {
		known = append(known, containerNames(&pods[i])...)
		for _, name := range r.selected(&pods[i]) {
			streams = append(streams, podLogStream{&pods[i], name})
		}
	}
	slices.Sort(known)
	names := strings.Join(slices.Compact(known), ", ")
	switch {
	case len(streams) > 0:
		return streams, nil
	case r.container == "":
		return nil, fmt.Errorf("no container was restarted: omit --previous; --container selects one of %s", names)
	}
	return nil, cli.Usage("--container: there is no %q, only %s", r.container, names)
}

// selected returns the containers of a pod whose logs are printed: the one of --container, or with
// --previous those that were restarted, or all except init containers.
func (r *logsRun) selected(pod *corev1.Pod) []string {
	names := containerNames(pod)
	switch {
	case r.container != "":
		return slices.DeleteFunc(names, func(name string) bool { return name != r.container })
	case r.previous:
		return slices.DeleteFunc(names, func(name string) bool { return !wasRestarted(pod, name) })
	}
	return names[len(pod.Spec.InitContainers):]
}

// wasRestarted reports whether a container has a log from before a restart.
func wasRestarted(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(podproblem.Containers(pod), func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.LastTerminationState.Terminated != nil
	})
}

// containerNames returns the names of the containers of a pod, init containers first.
func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Name)
	}
	return names
}

func (r *logsRun) copy(ctx context.Context, s podLogStream, several bool) error {
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
	if err := eachLine(log, func(line string) error { return r.write(prefix, line) }); err != nil {
		return fmt.Errorf("reading the log of container %s of pod %s/%s: %w", s.container, s.pod.Namespace, s.pod.Name, err)
	}
	return nil
}
