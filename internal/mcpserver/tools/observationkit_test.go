package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// hostile contains everything that must not reach a model.
const (
	hostile      = "\x1b[31mfailed\x1b[0m at postgres://coder:hunter2@db/coder\x00 \u202e"
	hostileClean = "failed at postgres://coder:[redacted]@db/coder "
	// hostileMessage is hostile as the message of a pod or an Event, without the user.
	hostileMessage = "failed at postgres://[redacted]@db/coder "
)

var noon = metav1.NewTime(time.Date(2026, 11, 21, 14, 0, 0, 0, time.FixedZone("CET", 7200)))

const noonUTC = "2026-11-21T12:00:00Z"

// newControlPlane returns a control plane that is ready, with two pods.
func newControlPlane(name string) *coderv1alpha1.CoderControlPlane {
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name, UID: "cp-uid", Generation: 3}}
	cp.Spec.Image = "ghcr.io/coder/coder:v2.30.0"
	cp.Spec.Replicas = ptr.To[int32](2)
	cp.Status = coderv1alpha1.CoderControlPlaneStatus{URL: "http://" + name + ".coder.svc", Version: "v2.30.0"}
	cp.Status.Replicas, cp.Status.ReadyReplicas = 2, 2
	settle(cp, metav1.ConditionTrue, "Ready", "Coder works")
	return cp
}

// settle sets the status for the current generation.
func settle(cp *coderv1alpha1.CoderControlPlane, ready metav1.ConditionStatus, reason, message string) {
	cp.Status.ObservedGeneration, cp.Status.Phase = cp.Generation, coderv1alpha1.PhasePending
	if ready == metav1.ConditionTrue {
		cp.Status.Phase = coderv1alpha1.PhaseReady
	}
	cp.Status.Conditions = []metav1.Condition{{
		Type: coderv1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message,
		ObservedGeneration: cp.Generation, LastTransitionTime: noon,
	}}
}

// newDeployment returns the Deployment of a control plane, completely rolled out.
func newDeployment(cp *coderv1alpha1.CoderControlPlane) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: cp.Namespace, Name: cp.Name, UID: "deployment-uid", Generation: 5,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cp, coderv1alpha1.GroupVersion.WithKind("CoderControlPlane"))},
	}}
	d.Spec.Replicas = ptr.To[int32](2)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coder", Image: cp.Spec.Image}}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 5, Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
	return d
}

func newPod(controlPlane, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name, Labels: coderv1alpha1.ControlPlaneLabels(controlPlane)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "coder"}}},
	}
}

// rawFunc is callers.Kube.Raw without the context.
type rawFunc func(path string, query url.Values) (io.ReadCloser, error)

func (f rawFunc) Get(_ context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return f(path, query)
}

// withRaw returns the API with another Raw.
func withRaw(kube *callers.Kube, raw rawFunc) *callers.Kube {
	return &callers.Kube{WithWatch: kube.WithWatch, Raw: raw.Get}
}

func denied(verb string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", fmt.Errorf("User \"alice\" cannot %s resource \"things\"", verb))
}

// denyAll returns an API that forbids everything.
func denyAll(t *testing.T) *callers.Kube {
	t.Helper()
	kube := fakeKube(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return denied("get")
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return denied("list")
		},
	}, nil)
	return withRaw(kube, func(string, url.Values) (io.ReadCloser, error) { return nil, denied("get") })
}

// pagedList serves a list in pages of the requested limit.
func pagedList[T any](all []T, into func(client.ObjectList) *[]T) interceptor.Funcs {
	return interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		o.ApplyOptions(opts)
		start := 0
		if o.Continue != "" {
			if _, err := fmt.Sscan(o.Continue, &start); err != nil {
				return apierrors.NewBadRequest("continue is wrong")
			}
		}
		end := len(all)
		if o.Limit > 0 && start+int(o.Limit) < end {
			end = start + int(o.Limit)
			list.SetContinue(fmt.Sprint(end))
		}
		*into(list) = append([]T{}, all[start:end]...)
		return nil
	}}
}

// everyPage follows the cursors and returns all pages.
func everyPage[O any](t *testing.T, read func(cursor string) (O, error), next func(O) string) []O {
	t.Helper()
	var pages []O
	for cursor := ""; ; {
		out, err := read(cursor)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, out)
		if cursor = next(out); cursor == "" {
			return pages
		}
		if len(pages) > 100 {
			t.Fatal("the pages have no end")
		}
	}
}

// operatorTools connects a client of user alice, without elicitation, to the tools for
// control planes and observation.
func operatorTools(t *testing.T, kube *callers.Kube) *mcp.ClientSession {
	t.Helper()
	return connectTo(t, toolset.Env{Kube: kube}, nil, addControlPlanes, addObservation)
}

// tell calls a tool and returns the text of its answer.
func tell(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) (answer string, isError bool) {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken("p")
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// operatorCalls returns one valid call of each tool.
func operatorCalls() map[string]map[string]any {
	object := map[string]any{"namespace": "coder", "name": "coder"}
	return map[string]map[string]any{
		"list_control_planes":                 {},
		"get_control_plane_status":            object,
		"list_control_plane_pods":             object,
		"get_control_plane_deployment_status": object,
		"get_service_status":                  object,
		"change_control_plane":                {"namespace": "coder", "name": "coder", "replicas": 2},
		"list_provisioners":                   {},
		"list_workspace_proxies":              {},
		"get_events":                          {"namespace": "coder"},
		"get_pod_logs":                        object,
		"check_health":                        {},
	}
}

func TestWhoMayNotIsToldInASentence(t *testing.T) {
	session := operatorTools(t, denyAll(t))
	for tool, arguments := range operatorCalls() {
		answer, isError := tell(t, session, tool, arguments)
		if tool == "check_health" {
			if isError || !strings.Contains(answer, `could not read codercontrolplanes in all namespaces: user \"alice\" may not list`) {
				t.Errorf("%s: %v %s", tool, isError, answer)
			}
			continue
		}
		if !isError || !strings.Contains(answer, `user "alice" may not`) || strings.Contains(answer, "\n") {
			t.Errorf("%s: %v %s", tool, isError, answer)
		}
	}
}

// TestNothingIsNull calls each tool with objects that have no optional fields.
func TestNothingIsNull(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "coder", Name: "coder"}
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{"/api/v1/namespaces/coder/pods/coder/log": ""},
		&coderv1alpha1.CoderControlPlane{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta},
		&coderv1alpha1.CoderProvisioner{ObjectMeta: meta}, &coderv1alpha1.CoderWorkspaceProxy{ObjectMeta: meta},
		&corev1.Event{ObjectMeta: meta}, newPod("coder", "coder"))
	session := operatorTools(t, kube)
	for tool, arguments := range operatorCalls() {
		if answer, isError := tell(t, session, tool, arguments); strings.Contains(answer, "null") || isError && tool != "change_control_plane" {
			t.Errorf("%s: %v %s", tool, isError, answer)
		}
	}
}

func TestAnEmptyClusterGivesEmptyLists(t *testing.T) {
	session := operatorTools(t, fakeKube(t, interceptor.Funcs{}, nil))
	for _, tool := range []string{"list_control_planes", "list_provisioners", "list_workspace_proxies", "get_events"} {
		if answer, _ := tell(t, session, tool, operatorCalls()[tool]); !strings.HasSuffix(answer, `"items":[],"truncated":false}`) {
			t.Errorf("%s: %s", tool, answer)
		}
	}
}

func TestWhatIsMissingIsToldInASentence(t *testing.T) {
	session := operatorTools(t, fakeKube(t, interceptor.Funcs{}, nil))
	for tool, noun := range map[string]string{
		"get_control_plane_status":            "codercontrolplanes.coder.com",
		"list_control_plane_pods":             "codercontrolplanes.coder.com",
		"get_control_plane_deployment_status": "deployments.apps",
		"get_service_status":                  "services",
		"change_control_plane":                "codercontrolplanes.coder.com",
		"get_pod_logs":                        "pods",
	} {
		answer, isError := tell(t, session, tool, operatorCalls()[tool])
		if want := "there is no " + noun + " coder/coder; list them to see which names exist"; !isError || answer != want {
			t.Errorf("%s: %v %s, want %s", tool, isError, answer, want)
		}
	}
}

func TestNamesAreRequired(t *testing.T) {
	session := operatorTools(t, fakeKube(t, interceptor.Funcs{}, nil))
	for tool, arguments := range operatorCalls() {
		if _, named := arguments["namespace"]; !named {
			continue
		}
		given := map[string]any{"namespace": ""}
		if _, named := arguments["name"]; named {
			given["name"] = "x"
		}
		if tool == "change_control_plane" {
			given["restart"] = true
		}
		if answer, isError := tell(t, session, tool, given); !isError || answer != "namespace is required" {
			t.Errorf("%s: %v %s", tool, isError, answer)
		}
	}
}

var errBroken = errors.New("broken")
