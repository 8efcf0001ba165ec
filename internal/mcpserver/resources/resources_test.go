package resources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestCatalogue(t *testing.T) {
	session := newWorld(t).connect(t)
	var got []string
	for resource, err := range session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if resource.Title == "" || resource.Description == "" || resource.MIMEType == "" {
			t.Errorf("%+v", resource)
		}
		got = append(got, resource.URI)
	}
	for template, err := range session.ResourceTemplates(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if template.Title == "" || template.Description == "" || template.MIMEType == "" {
			t.Errorf("%+v", template)
		}
		got = append(got, template.URITemplate)
	}
	want := []string{
		"coder://controlplanes", "coder://controlplanes/{namespace}", "coder://controlplanes/{namespace}/{name}",
		"coder://controlplanes/{namespace}/{name}/events", "coder://controlplanes/{namespace}/{name}/pods",
		"coder://templates/{namespace}/{name}", "coder://templates/{namespace}/{name}/files/{+path}",
		"coder://workspaces/{namespace}/{name}", "coder://workspaces/{namespace}/{name}/log",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestControlPlanes(t *testing.T) {
	ready := newControlPlane("coder", "prod")
	ready.Status.Version = "v2.30.0"
	ready.Status.Conditions = []metav1.Condition{{Type: coderv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"}}
	broken := newControlPlane("other", "test")
	broken.Status.Conditions = []metav1.Condition{{
		Type: coderv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "DatabaseUnreachable", Message: "postgres://u:hunter22@h refused",
	}}
	w := newWorld(t, ready, broken)
	prod := map[string]any{
		"namespace": "coder", "name": "prod", "uri": "coder://controlplanes/coder/prod", "ready": true, "reason": "Ready", "version": "v2.30.0",
	}
	want := map[string]any{"controlPlanes": []any{prod, map[string]any{
		"namespace": "other", "name": "test", "uri": "coder://controlplanes/other/test", "ready": false,
		"reason": "DatabaseUnreachable", "message": "postgres://u:[redacted]@h refused",
	}}}
	if diff := cmp.Diff(want, w.readJSON(t, "coder://controlplanes")); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"controlPlanes": []any{prod}}, w.readJSON(t, "coder://controlplanes/coder")); diff != "" {
		t.Errorf("of a namespace (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"controlPlanes": []any{}}, w.readJSON(t, "coder://controlplanes/empty")); diff != "" {
		t.Errorf("of a namespace without any (-want +got):\n%s", diff)
	}
}

func TestLongListsAreCut(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		cp := newControlPlane("coder", fmt.Sprintf("cp-%03d", i))
		cp.Status.Conditions = []metav1.Condition{{Type: coderv1alpha1.ConditionReady, Message: strings.Repeat("x ", 4000)}}
		w.objects = append(w.objects, cp)
	}
	got := w.readJSON(t, "coder://controlplanes")
	if n := len(got["controlPlanes"].([]any)); n != 25 || got["truncated"] != true || !strings.Contains(got["notice"].(string), "there are more") {
		t.Errorf("%d control planes, truncated %v, notice %v", n, got["truncated"], got["notice"])
	}
}

func TestObjects(t *testing.T) {
	cp := newControlPlane("coder", "prod")
	cp.Spec.Image = "ghcr.io/coder/coder:v2.30.0"
	cp.Spec.ExtraEnv = []corev1.EnvVar{{Name: "CODER_PG_CONNECTION_URL", Value: "postgres://u:hunter22@h/db"}}
	cp.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "hunter22"}
	ws := newWorkspace("coder", "coder.ada.dev")
	ws.Status.Phase = "Running"
	tmpl := newTemplate("coder", "coder.small", map[string]string{"main.tf": "12345", "modules/a b/x.tf": ""})
	tmpl.Spec.Variables = []aggregationv1alpha1.TemplateVariable{{Name: "token", Value: "hunter22"}}
	w := newWorld(t, cp, ws, tmpl)

	for uri, words := range map[string][]string{
		"coder://controlplanes/coder/prod":       {"CoderControlPlane", "coder.com/v1alpha1", "ghcr.io/coder/coder:v2.30.0"},
		"coder://workspaces/coder/coder.ada.dev": {"CoderWorkspace", "aggregation.coder.com/v1alpha1", "Running"},
		"coder://templates/coder/coder.small":    {"CoderTemplate", "main.tf:(5 bytes)", "modules/a b/x.tf:(0 bytes)"},
	} {
		got := fmt.Sprint(w.readJSON(t, uri))
		for _, word := range words {
			if !strings.Contains(got, word) {
				t.Errorf("%s lacks %q: %s", uri, word, got)
			}
		}
		if strings.Contains(got, "hunter22") {
			t.Errorf("%s shows too much: %s", uri, got)
		}
	}
}

func TestLargeObjects(t *testing.T) {
	tmpl := newTemplate("coder", "coder.large", nil)
	tmpl.Spec.Description = strings.Repeat("words ", 50_000)
	tmpl.Status.LatestVersionName = "one"
	worse := tmpl.DeepCopy()
	worse.Name, worse.Status.LatestVersionError = "coder.larger", tmpl.Spec.Description
	w := newWorld(t, tmpl, worse)
	got := w.readJSON(t, "coder://templates/coder/coder.large")
	if status, ok := got["status"].(map[string]any); !ok || status["latestVersionName"] != "one" || got["spec"] != nil || !strings.Contains(got["notice"].(string), "spec and more is left out") {
		t.Errorf("%v", got)
	}
	got = w.readJSON(t, "coder://templates/coder/coder.larger")
	if got["spec"] != nil || got["status"] != nil || got["kind"] != "CoderTemplate" || !strings.Contains(got["notice"].(string), "status and more is left out") {
		t.Errorf("%v", got)
	}
	worst := newWorkspace("coder", "coder.ada.dev")
	worst.Labels = map[string]string{"a": tmpl.Spec.Description}
	if _, err := newWorld(t, worst).read(t, "coder://workspaces/coder/coder.ada.dev"); err == nil || !strings.Contains(err.Error(), "the metadata of coder://workspaces/coder/coder.ada.dev alone has more than 256 KiB") {
		t.Errorf("an object of which nothing can be left out: %v", err)
	}
}

func TestPods(t *testing.T) {
	labels := coderv1alpha1.ControlPlaneLabels("prod")
	started := metav1.NewTime(time.Date(2030, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600)))
	mine := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "prod-7d4f8b9c6-abcde", Labels: labels},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{
			{Name: "coder", Env: []corev1.EnvVar{{Name: "A", Value: "hunter22"}}}, {Name: "sidecar"},
		}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &started,
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name: "coder", Image: "coder:1", RestartCount: 3,
					State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "password=hunter22 at https://ada@x.example/a?b=c"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}},
				},
				{Name: "sidecar", Image: "s:1", Ready: true, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
		},
	}
	others := mine.DeepCopy()
	others.Name, others.Labels = "test-1", coderv1alpha1.ControlPlaneLabels("test")
	w := newWorld(t, newControlPlane("coder", "prod"), newControlPlane("coder", "idle"), mine, others)
	want := map[string]any{"pods": []any{map[string]any{
		"name": "prod-7d4f8b9c6-abcde", "namespace": "coder", "phase": "Running", "readyContainers": 1.0, "totalContainers": 2.0, "nodeName": "n1",
		"startTime": "2030-01-01T00:00:00Z",
		"containers": []any{
			map[string]any{
				"name": "coder", "image": "coder:1", "ready": false, "restarts": 3.0, "state": "waiting", "reason": "CrashLoopBackOff",
				"message":         "password=[redacted] at https://[redacted]@x.example/a?[redacted]",
				"lastTermination": map[string]any{"exitCode": 1.0, "reason": "Error"},
			},
			map[string]any{"name": "sidecar", "image": "s:1", "ready": true, "restarts": 1.0, "state": "running"},
		},
	}}}
	if diff := cmp.Diff(want, w.readJSON(t, "coder://controlplanes/coder/prod/pods")); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"pods": []any{}}, w.readJSON(t, "coder://controlplanes/coder/idle/pods")); diff != "" {
		t.Errorf("of one without pods (-want +got):\n%s", diff)
	}
	if _, err := w.read(t, "coder://controlplanes/coder/none/pods"); !isMissing(err) {
		t.Errorf("of a control plane that there is not: %v", err)
	}
}

func newEvent(name, kind, about string, minute int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "coder", Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "coder", Name: about},
		Type:           "Warning", Reason: "BackOff", Message: name, LastTimestamp: metav1.NewTime(time.Date(2030, 1, 1, 0, minute, 0, 0, time.UTC)), Count: 2,
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t, newControlPlane("coder", "prod"),
		newEvent("a", "CoderControlPlane", "prod", 1), newEvent("b", "Pod", "prod-7d4f8b9c6-bcdfg", 3), newEvent("c", "ReplicaSet", "prod-7d4f8b9c6", 2),
		newEvent("d", "Deployment", "prod", 4), newEvent("e token=hunter22", "Service", "prod", 0),
		newEvent("x1", "Pod", "prod-db-7d4f8b9c6-bcdfg", 5), newEvent("x2", "Pod", "prod-db-1", 5), newEvent("x3", "Deployment", "prod-db", 5),
		newEvent("x4", "CoderWorkspaceProxy", "prod", 5), newEvent("x5", "Pod", "prod", 5), newEvent("x6", "ReplicaSet", "prod-db-7d4f8b9c6", 5))
	got := w.readJSON(t, "coder://controlplanes/coder/prod/events")
	var messages []string
	for _, e := range got["events"].([]any) {
		messages = append(messages, e.(map[string]any)["message"].(string))
	}
	if diff := cmp.Diff([]string{"d", "b", "c", "a", "e token=[redacted]"}, messages); diff != "" || got["truncated"] != nil {
		t.Errorf("events, truncated %v (-want +got):\n%s", got["truncated"], diff)
	}
	want := map[string]any{"time": "2030-01-01T00:04:00Z", "type": "Warning", "reason": "BackOff", "object": "Deployment/prod", "message": "d", "count": 2.0}
	if diff := cmp.Diff(want, got["events"].([]any)[0]); diff != "" {
		t.Errorf("the newest (-want +got):\n%s", diff)
	}
	for i := range mostEvents {
		w.objects = append(w.objects, newEvent(fmt.Sprintf("many%d", i), "Deployment", "prod", 10+i))
	}
	got = w.readJSON(t, "coder://controlplanes/coder/prod/events")
	if n := len(got["events"].([]any)); n != mostEvents || got["truncated"] != true || !strings.Contains(got["notice"].(string), "older events are left out") {
		t.Errorf("%d events, truncated %v, notice %v", n, got["truncated"], got["notice"])
	}
}

func TestEventsOfABusyNamespace(t *testing.T) {
	w := newWorld(t, newControlPlane("coder", "prod"))
	pages := 0
	w.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		options := (&client.ListOptions{}).ApplyOptions(opts)
		if want := strings.Repeat("n", pages); options.Continue != want || options.Limit != toolset.EventsPerPage || options.Namespace != "coder" {
			t.Errorf("page %d: %+v", pages, options)
		}
		pages++
		list.(*corev1.EventList).Items = []corev1.Event{*newEvent("a", "Deployment", "prod", pages)}
		list.SetContinue(strings.Repeat("n", pages))
		return nil
	}
	got := w.readJSON(t, "coder://controlplanes/coder/prod/events")
	if n := len(got["events"].([]any)); n != toolset.MaxEventPages || pages != toolset.MaxEventPages || !strings.Contains(got["notice"].(string), "more events than were read") {
		t.Errorf("%d events of %d pages, notice %v", n, pages, got["notice"])
	}
}

func TestLog(t *testing.T) {
	w := newWorld(t)
	path := "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/coder.ada.dev/log"
	w.raw[path] = "one\x1b[31m\ntwo token=hunter22\n"
	got, err := w.read(t, "coder://workspaces/coder/coder.ada.dev/log")
	if err != nil || got.Text != "("+toolset.Untrusted+")\none\ntwo token=[redacted]\n" || got.MIMEType != "text/plain" {
		t.Errorf("%+v, %v", got, err)
	}
	var long strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	w.raw[path] = long.String()
	got, err = w.read(t, "coder://workspaces/coder/coder.ada.dev/log")
	if err != nil || !strings.Contains(got.Text, ")\n(older lines are left out; get_build_logs returns more)\nline 800\n") || !strings.HasSuffix(got.Text, "line 999\n") {
		t.Errorf("a long log: %.200s, %v", got.Text, err)
	}
	if _, err := w.read(t, "coder://workspaces/coder/coder.ada.none/log"); !isMissing(err) {
		t.Errorf("of a workspace that there is not: %v", err)
	}
}

func TestFiles(t *testing.T) {
	inline := newTemplate("coder", "coder.small", map[string]string{"main.tf": `password = "hunter22"`, "docs/a b.md": "ä", "big": strings.Repeat("ä", 150_000)})
	inline.Status.Source = &aggregationv1alpha1.TemplateSource{Inline: true}
	packedOne := newTemplate("coder", "coder.packed", map[string]string{"main.tf": "shown"})
	w := newWorld(t, inline, packedOne)
	names := []string{"./logo.png", "modules/x.tf", "huge.bin"}
	w.raw["/apis/aggregation.coder.com/v1alpha1/namespaces/coder/codertemplates/coder.packed/files"] = packed(t, names, map[string]string{
		"./logo.png": "\x89PNG\xff", "modules/x.tf": "archived", "huge.bin": strings.Repeat("\xff", maxBytes+1),
	})
	for uri, want := range map[string]string{
		"coder.small/files/main.tf":       `password = "[redacted]"`,
		"coder.small/files/docs/a%20b.md": "ä",
		"coder.packed/files/main.tf":      "shown",
		"coder.packed/files/modules/x.tf": "archived",
	} {
		got, err := w.read(t, "coder://templates/coder/"+uri)
		if err != nil || got.Text != want || got.MIMEType != "text/plain" {
			t.Errorf("%s: %+v, %v", uri, got, err)
		}
	}
	got, err := w.read(t, "coder://templates/coder/coder.packed/files/logo.png")
	if err != nil || string(got.Blob) != "\x89PNG\xff" || got.MIMEType != "application/octet-stream" || got.Text != "" {
		t.Errorf("bytes: %+v, %v", got, err)
	}
	got, err = w.read(t, "coder://templates/coder/coder.small/files/big")
	const notice = "\n(the rest is left out: the file has more than 256 KiB)\n"
	if err != nil || got.Text != strings.Repeat("ä", maxBytes/2)+notice {
		t.Errorf("a large file: %d bytes, %v", len(got.Text), err)
	}
	if _, err := w.read(t, "coder://templates/coder/coder.packed/files/huge.bin"); err == nil || !strings.Contains(err.Error(), "is not text and has more than 256 KiB") {
		t.Errorf("large and no text: %v", err)
	}
	for _, missing := range []string{"coder.small/files/none.tf", "coder.packed/files/none.tf", "coder.none/files/main.tf"} {
		if _, err := w.read(t, "coder://templates/coder/"+missing); !isMissing(err) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		uri  string
		err  error
		code int64
		want string
	}{
		"of a list":            {"coder://controlplanes", forbidden("codercontrolplanes", ""), jsonrpc.CodeInvalidParams, `user "ada" may not list codercontrolplanes in all namespaces; give a namespace for which the user has permission`},
		"of an object":         {"coder://workspaces/coder/coder.ada.dev", forbidden("coderworkspaces", "coder.ada.dev"), jsonrpc.CodeInvalidParams, `user "ada" may not get coderworkspaces coder/coder.ada.dev`},
		"of pods":              {"coder://controlplanes/coder/prod/pods", forbidden("codercontrolplanes", "prod"), jsonrpc.CodeInvalidParams, `user "ada" may not get codercontrolplanes coder/prod`},
		"of what there is not": {"coder://controlplanes", notFound("codercontrolplanes", ""), jsonrpc.CodeInternalError, "this cluster does not serve list of codercontrolplanes"},
		"that passes":          {"coder://templates/coder/coder.small", apierrors.NewServiceUnavailable("Coder does not answer"), jsonrpc.CodeInternalError, `cannot get codertemplates coder/coder.small now`},
		"that is a mystery":    {"coder://templates/coder/coder.small", errors.New("at 10.0.0.1: goroutine"), jsonrpc.CodeInternalError, "the Kubernetes API returned an unexpected response"},
	} {
		w := newWorld(t)
		w.funcs = interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return c.err
			},
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return c.err },
		}
		_, err := w.read(t, c.uri)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "10.0.0.1") || isMissing(err) {
			t.Errorf("an error %s: %v, want %s", name, err, c.want)
		}
		var rpc *jsonrpc.Error
		if !errors.As(err, &rpc) || rpc.Code != c.code {
			t.Errorf("an error %s: %v, want code %d", name, err, c.code)
		}
	}
	for _, uri := range []string{"coder://workspaces/coder/coder.ada.none", "coder://controlplanes/coder/none", "coder://secrets/coder/x", "coder://workspaces/coder", "file:///etc/passwd"} {
		if _, err := newWorld(t).read(t, uri); !isMissing(err) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// viewRole returns ClusterRole coder-k8s-view of an installation.
func viewRole(t *testing.T) rbacv1.ClusterRole {
	t.Helper()
	if os.Getenv("TOOLS_DIR") == "" {
		t.Skip("TOOLS_DIR does not say where helm is; make test does")
	}
	objects, err := kubetest.Installation(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" || o.GetName() != "coder-k8s-view" {
			continue
		}
		var view rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &view); err != nil {
			t.Fatal(err)
		}
		return view
	}
	t.Fatal("the installation has no ClusterRole coder-k8s-view")
	return rbacv1.ClusterRole{}
}

func TestReadersMayDoAllThatIsUsed(t *testing.T) {
	view := viewRole(t)
	granted := map[callers.Right]bool{
		// The built-in role view grants these.
		{Verb: "list", Resource: "events"}: true, {Verb: "list", Resource: "pods"}: true,
	}
	for _, rule := range view.Rules {
		for _, verb := range rule.Verbs {
			for _, resource := range rule.Resources {
				granted[callers.Right{Verb: verb, Group: rule.APIGroups[0], Resource: resource}] = true
			}
		}
	}
	for _, right := range Rights() {
		if !granted[right] {
			t.Errorf("%+v is not in the role coder-k8s-view", right)
		}
	}
}

func TestReadTemplateOfProtocolMatchesAddresses(t *testing.T) {
	// URIs that match a template of the protocol but not an address are missing too.
	session := newWorld(t).connect(t)
	for _, uri := range []string{"coder://controlplanes/%2E%2E", "coder://controlplanes/a%2Fb/c", "coder://templates/a/b/files/../c"} {
		if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); !isMissing(err) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
