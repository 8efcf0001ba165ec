package tools

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const logPath = "/api/v1/namespaces/coder/pods/coder-1/log"

// podWith returns a pod with these containers.
func podWith(names ...string) *corev1.Pod {
	p := newPod("coder", "coder-1")
	p.Spec.Containers = nil
	for _, name := range names {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	return p
}

func TestGetPodLogsAsksForWhatIsWanted(t *testing.T) {
	annotated := podWith("a", "b")
	annotated.Annotations = map[string]string{defaultContainerAnnotation: "b"}
	in := getPodLogsInput{Namespace: "coder", Name: "coder-1"}
	with := func(change func(*getPodLogsInput)) getPodLogsInput {
		changed := in
		change(&changed)
		return changed
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		in   getPodLogsInput
		want string
	}{
		"the only container": {podWith("coder"), in, "container=coder&tailLines=201"},
		"the pod's choice":   {annotated, in, "container=b&tailLines=201"},
		"the caller's":       {annotated, with(func(in *getPodLogsInput) { in.Container = "a" }), "container=a&tailLines=201"},
		"previous":           {podWith("coder"), with(func(in *getPodLogsInput) { in.Previous = true }), "container=coder&previous=true&tailLines=201"},
		"since":              {podWith("coder"), with(func(in *getPodLogsInput) { in.SinceSeconds = 60 }), "container=coder&sinceSeconds=60&tailLines=201"},
		"lines":              {podWith("coder"), with(func(in *getPodLogsInput) { in.TailLines = 3 }), "container=coder&tailLines=4"},
		"too many lines":     {podWith("coder"), with(func(in *getPodLogsInput) { in.TailLines = 1 << 40 }), "container=coder&tailLines=5001"},
	} {
		var asked string
		kube := withRaw(fakeKube(t, interceptor.Funcs{}, nil, tc.pod), func(path string, query url.Values) (io.ReadCloser, error) {
			if path != logPath {
				t.Errorf("%s: the path is %s", name, path)
			}
			asked = query.Encode()
			return io.NopCloser(strings.NewReader("hello\n")), nil
		})
		out, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, tc.in)
		if err != nil || asked != tc.want || out.Logs != "hello\n" || out.Truncated || out.Note != "" {
			t.Errorf("%s: asked for %s, want %s; %+v, %v", name, asked, tc.want, out, err)
		}
	}
}

func TestGetPodLogsKeepsTheNewestCleaned(t *testing.T) {
	log := strings.Repeat("an old line\n", 500) + hostile + "\nlast\n"
	for name, tc := range map[string]struct {
		in   getPodLogsInput
		want string
		cut  bool
	}{
		"lines": {getPodLogsInput{TailLines: 2}, hostileClean + "\nlast\n", true},
		"bytes": {getPodLogsInput{TailLines: 5000, LimitBytes: 7}, "last\n", true},
		"all":   {getPodLogsInput{TailLines: 5000, LimitBytes: 1 << 30}, strings.Repeat("an old line\n", 500) + hostileClean + "\nlast\n", false},
		"usual": {getPodLogsInput{}, strings.Repeat("an old line\n", 198) + hostileClean + "\nlast\n", true},
	} {
		tc.in.Namespace, tc.in.Name = "coder", "coder-1"
		kube := fakeKube(t, interceptor.Funcs{}, rawTexts{logPath: log}, podWith("coder"))
		out, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, tc.in)
		if err != nil || out.Logs != tc.want || out.Truncated != tc.cut || (out.Note != "") != tc.cut || out.Container != "coder" {
			t.Errorf("%s: %d bytes, want %d; truncated %v, note %q, %v", name, len(out.Logs), len(tc.want), out.Truncated, out.Note, err)
		}
	}
}

func TestGetPodLogsStaysWithinItsBytesWhenCleaned(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{logPath: strings.Repeat("token=x\n", 1000)}, podWith("coder"))
	out, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, getPodLogsInput{Namespace: "coder", Name: "coder-1", TailLines: 5000, LimitBytes: 8000})
	if err != nil || len(out.Logs) > 8000 || !out.Truncated || strings.Contains(out.Logs, "=x") {
		t.Errorf("%d bytes, truncated %v, %v", len(out.Logs), out.Truncated, err)
	}
}

func TestGetPodLogsNamesTheContainersToChooseFrom(t *testing.T) {
	p := podWith("coder", "sidecar")
	p.Annotations = map[string]string{defaultContainerAnnotation: "gone"}
	p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	_, err := getPodLogs(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, p)}, getPodLogsInput{Namespace: "coder", Name: "coder-1"})
	wantError(t, err, "pod coder/coder-1 has several containers; give container: one of coder, sidecar, init, debug")
}

func TestGetPodLogsWithoutTheRightToReadPods(t *testing.T) {
	kube := withRaw(denyAll(t), func(_ string, query url.Values) (io.ReadCloser, error) {
		if query.Has("container") {
			t.Errorf("the API is asked for %s", query.Encode())
		}
		return nil, apierrors.NewBadRequest("a container name must be specified for pod coder-1, choose one of: [a b]")
	})
	_, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, getPodLogsInput{Namespace: "coder", Name: "coder-1"})
	wantError(t, err, "choose one of: [a b]")
}

func TestGetPodLogsThatBreakOff(t *testing.T) {
	kube := withRaw(fakeKube(t, interceptor.Funcs{}, nil, podWith("coder")), func(string, url.Values) (io.ReadCloser, error) {
		return io.NopCloser(iotest.ErrReader(errBroken)), nil
	})
	_, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, getPodLogsInput{Namespace: "coder", Name: "coder-1"})
	var call *toolset.CallError
	if !errors.As(err, &call) || !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

func TestGetPodLogsTakesNoPaths(t *testing.T) {
	kube := withRaw(fakeKube(t, interceptor.Funcs{}, nil), func(path string, _ url.Values) (io.ReadCloser, error) {
		t.Errorf("%s is read", path)
		return nil, errBroken
	})
	for _, name := range []string{"..", ".", "a/b", "../../secrets/x", "a%2fb"} {
		for _, in := range []getPodLogsInput{{Namespace: "coder", Name: name, Container: "c"}, {Namespace: name, Name: "coder", Container: "c"}} {
			_, err := getPodLogs(t.Context(), &toolset.Call{Kube: kube}, in)
			wantError(t, err, " cannot be ")
		}
	}
}
