package diagnosis

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// fixture is a fake API.
type fixture struct {
	objects []client.Object
	// raw contains responses by path. Those for previous containers have the suffix
	// "?previous".
	raw map[string]string
	// forbidden contains the kinds, and "log", that alice may not read.
	forbidden []string
	// slow contains the kinds whose responses are delayed until a log was read, or until
	// the context has ended.
	slow    []string
	logRead chan struct{}
	// errs contains errors by kind.
	errs map[string]error

	mu sync.Mutex
	// asked contains the kinds and paths that were read.
	asked []string
}

func (w *fixture) answer(ctx context.Context, kind string) error {
	w.mu.Lock()
	w.asked = append(w.asked, kind)
	w.mu.Unlock()
	for _, slow := range w.slow {
		if slow != kind {
			continue
		}
		select {
		case <-w.logRead:
			return context.DeadlineExceeded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, forbidden := range w.forbidden {
		if forbidden == kind {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("no"))
		}
	}
	return w.errs[kind]
}

// Get is callers.Kube.Raw.
func (w *fixture) Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	if err := w.answer(ctx, "log"); err != nil {
		return nil, err
	}
	if query.Get("previous") == "true" {
		path += "?previous"
	}
	if w.logRead != nil {
		close(w.logRead)
	}
	body, ok := w.raw[path]
	if !ok {
		return nil, apierrors.NewBadRequest("container is waiting to start")
	}
	return io.NopCloser(strings.NewReader(body)), nil
}

// listOfTemplates is a kind of its own, because a caller may have only one of the permissions.
const listOfTemplates = "list of " + templates

func kindOf(obj any) string {
	switch obj.(type) {
	case *coderv1alpha1.CoderControlPlane, *coderv1alpha1.CoderControlPlaneList:
		return controlPlanes
	case *coderv1alpha1.CoderProvisionerList:
		return provisioners
	case *aggregationv1alpha1.CoderWorkspace:
		return workspaces
	case *aggregationv1alpha1.CoderTemplate:
		return templates
	case *aggregationv1alpha1.CoderTemplateList:
		return listOfTemplates
	case *appsv1.ReplicaSetList:
		return replicaSets
	case *corev1.PodList:
		return pods
	case *corev1.EventList:
		return events
	}
	return "something else"
}

// knownKinds are the kinds of the fake cluster.
var knownKinds = kubetest.KindsOf(coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme)

func (w *fixture) kube(t *testing.T) *callers.Kube {
	t.Helper()
	funcs := interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := w.answer(ctx, kindOf(obj)); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := client.ListOptions{}
			options.ApplyOptions(opts)
			if options.Limit == 0 {
				t.Errorf("a list of %s has no limit", kindOf(list))
			}
			if kind := kindOf(list); options.Namespace == "" {
				if err := w.answer(ctx, kind+" in all namespaces"); err != nil {
					return err
				}
			} else if err := w.answer(ctx, kind); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	}
	builder := knownKinds.Cluster(t).WithObjects(w.objects...).WithInterceptorFuncs(funcs)
	for field, value := range map[string]func(aggregationv1alpha1.CoderTemplateStatus) string{
		fieldVersionStatus: func(s aggregationv1alpha1.CoderTemplateStatus) string { return s.LatestVersionStatus },
		fieldOrganization:  func(s aggregationv1alpha1.CoderTemplateStatus) string { return s.OrganizationName },
		fieldTemplate:      func(s aggregationv1alpha1.CoderTemplateStatus) string { return s.TemplateName },
	} {
		builder.WithIndex(&aggregationv1alpha1.CoderTemplate{}, field, func(o client.Object) []string {
			return []string{value(o.(*aggregationv1alpha1.CoderTemplate).Status)}
		})
	}
	builder.WithIndex(&corev1.Event{}, "type", func(o client.Object) []string { return []string{o.(*corev1.Event).Type} })
	return &callers.Kube{WithWatch: builder.Build(), Raw: w.Get}
}

func asAlice(t *testing.T) context.Context {
	t.Helper()
	return request.WithUser(t.Context(), &user.DefaultInfo{Name: "alice"})
}

func (w *fixture) controlPlane(t *testing.T) *Report {
	t.Helper()
	r, err := ControlPlane(asAlice(t), w.kube(t), "coder", "coder")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *fixture) workspace(t *testing.T) *Report {
	t.Helper()
	r, err := Workspace(asAlice(t), w.kube(t), "coder", "coder.ada.dev")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const podLog = "/api/v1/namespaces/coder/pods/coder-r4-xxxxx/log"

// crashFixture returns a control plane whose coderd crashes repeatedly.
func crashFixture() *fixture {
	set := aReplicaSet("4", 1, 1)
	return &fixture{
		objects: []client.Object{
			aControlPlane(brokenPart("DeploymentAvailable", "CrashLooping", `container "coder" exited with code 1: create oidc config`)...),
			set, aReplicaSet("2", 0, 0), aPod("4", crashed(1, "Error", 4)),
			anEvent("Pod", "coder-r4-xxxxx", "BackOff", "Back-off restarting failed container coder"),
			anEvent("Pod", "coder-r4-ddddd", "Killing", "Stopping container"),
			anEvent("Pod", "coder-other-x", "BackOff", "of another Deployment"),
		},
		raw: map[string]string{podLog + "?previous": "Started HTTP listener\n" + crashLine + "\n"},
	}
}

func TestGatheredControlPlane(t *testing.T) {
	w := crashFixture()
	r := w.controlPlane(t)
	if len(r.Gaps) > 0 || len(r.Pods) != 1 || len(r.Events) != 2 || len(r.Logs) != 1 || len(r.Problems) != 2 {
		t.Errorf("%d gaps, %d pods, %d events, %d logs, %d problems: %+v", len(r.Gaps), len(r.Pods), len(r.Events), len(r.Logs), len(r.Problems), r)
	}
	if !r.Logs[0].Previous || !strings.Contains(r.Logs[0].Text, crashLine) || r.Pods[0].State != "CrashLoopBackOff" || r.Pods[0].Restarts != 4 || r.Pods[0].Ready != "0/1" {
		t.Errorf("log %+v, pod %+v", r.Logs[0], r.Pods[0])
	}
}

// TestForbiddenParts checks that each part that may not be read is reported as a gap with
// the name of the caller, and that the other parts are reported.
func TestForbiddenParts(t *testing.T) {
	for forbidden, want := range map[string]string{
		pods:         `could not read pods in namespace coder: user "alice" may not list pods`,
		"log":        `could not read pods/log coder/coder-r4-xxxxx: user "alice" may not get pods/log`,
		events:       `could not read events in namespace coder: user "alice" may not list events`,
		replicaSets:  `could not read replicasets in namespace coder: user "alice" may not list replicasets`,
		provisioners: `could not read coderprovisioners in namespace coder: user "alice" may not list coderprovisioners`,
	} {
		w := crashFixture()
		w.forbidden = []string{forbidden}
		r := w.controlPlane(t)
		if len(r.Gaps) != 1 || r.Gaps[0] != want {
			t.Errorf("gaps %q, want %q", r.Gaps, want)
		}
		// The operator's conditions contain what this caller cannot read.
		if !strings.Contains(r.Summary, "code 1") {
			t.Errorf("without %s: %s", forbidden, r.Summary)
		}
	}
}

// TestLogsAreBounded checks the limit on the number of containers whose logs are read.
func TestLogsAreBounded(t *testing.T) {
	w := crashFixture()
	for _, name := range []string{"b", "c", "d", "e"} {
		pod := aPod("4", crashed(1, "Error", 4))
		pod.Name = name
		w.objects = append(w.objects, pod)
	}
	w.controlPlane(t)
	if n := strings.Count(strings.Join(w.asked, " "), "log"); n != mostLogs {
		t.Errorf("%d logs were read, want %d", n, mostLogs)
	}
}

// TestLogOfReadyPods checks that the log is read if Coder runs but does not work.
func TestLogOfReadyPods(t *testing.T) {
	w := &fixture{
		objects: []client.Object{
			aControlPlane(brokenPart("CoderReachable", "Unreachable", "no answer")...), aReplicaSet("4", 1, 1), aPod("4", runs(true)),
		},
		raw: map[string]string{podLog: databaseLog},
	}
	if r := w.controlPlane(t); len(r.Logs) != 1 || !strings.Contains(r.Summary, "cannot use its database") {
		t.Errorf("%+v", r)
	}
	w.objects[0] = aControlPlane(working()...)
	if r := w.controlPlane(t); len(r.Logs) != 0 {
		t.Errorf("the log of a Coder that works was read: %+v", r.Logs)
	}
}

// TestWordsOfOthersAreClean checks that external text in a report contains no passwords and
// no control characters.
func TestWordsOfOthersAreClean(t *testing.T) {
	const dirty = "\x1b[31mpostgres://coder:hunter2hunter2@db/coder\x1b[0m"
	w := crashFixture()
	status := crashed(1, "Error", 4)
	status.LastTerminationState.Terminated.Message = "error: kept by the kubelet " + dirty
	w.objects[0] = aControlPlane(brokenPart("DeploymentAvailable", "CrashLooping", dirty)...)
	w.objects = append(w.objects[:3:3], aPod("4", status), anEvent("Pod", "coder-r4-xxxxx", "BackOff", dirty))
	w.raw[podLog+"?previous"] = "error: in the log " + dirty
	ws := failedWorkspace(dirty)
	w.objects = append(w.objects, ws, aTemplate())
	w.raw["/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/coder.ada.dev/log"] = logged("Planning", "Error: "+dirty)
	for _, r := range []*Report{w.controlPlane(t), w.workspace(t)} {
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "u001b") || len(r.Logs) != 1 {
			t.Errorf("%s", raw)
		}
	}
}

// TestCauseInGap checks that the summary says which gap may contain the cause.
func TestCauseInGap(t *testing.T) {
	w := crashFixture()
	w.objects[0] = aControlPlane(brokenPart("DeploymentAvailable", "Progressing", "0 of 1 pods are ready")...)
	w.forbidden = []string{pods, events}
	r := w.controlPlane(t)
	if want := "Some causes may be in what could not be read (events, pods): see gaps, and try again with an account that may read it."; !strings.HasSuffix(r.Summary, want) || r.Healthy {
		t.Errorf("the summary is %q", r.Summary)
	}
}

// TestSlowPart checks that a slow part does not delay the others: the log is read
// meanwhile.
func TestSlowPart(t *testing.T) {
	w := crashFixture()
	w.slow, w.logRead = []string{events}, make(chan struct{})
	r := w.controlPlane(t)
	if len(r.Gaps) != 1 || r.Gaps[0] != "could not read events in namespace coder: there was no response in time" || len(r.Logs) != 1 {
		t.Errorf("gaps %q, %d logs", r.Gaps, len(r.Logs))
	}
}

// TestTimeIsUp checks the time limit. It uses the clock of synctest, so that it cannot fail
// on a busy machine.
func TestTimeIsUp(t *testing.T) { synctest.Test(t, testTimeIsUp) }

func testTimeIsUp(t *testing.T) {
	w := crashFixture()
	w.slow = []string{events, pods, replicaSets}
	r, err := ControlPlane(asAlice(t), w.kube(t), "coder", "coder")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.Gaps, "\n"); strings.Count(got, "there was no response in time") < 3 || !strings.Contains(r.Summary, "code 1") {
		t.Errorf("%s\n%s", r.Summary, got)
	}
	w.slow = []string{workspaces}
	if _, err := Workspace(asAlice(t), w.kube(t), "coder", "coder.ada.dev"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestGivenUp checks that a canceled diagnosis returns an error and no report.
func TestGivenUp(t *testing.T) {
	w := crashFixture()
	w.slow = []string{events}
	ctx, cancel := context.WithCancel(asAlice(t))
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := ControlPlane(ctx, w.kube(t), "coder", "coder"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestErrorsOfTheObject(t *testing.T) {
	w := &fixture{}
	_, err := ControlPlane(asAlice(t), w.kube(t), "coder", "none")
	var call *toolset.CallError
	if !errors.As(err, &call) || !apierrors.IsNotFound(err) || call.Name != "none" || call.Resource != controlPlanes {
		t.Errorf("error %v", err)
	}
	w.forbidden = []string{workspaces}
	if _, err := Workspace(asAlice(t), w.kube(t), "coder", "x"); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}

// TestNoSecretIsRead checks that no Secret is read.
func TestNoSecretIsRead(t *testing.T) {
	w := crashFixture()
	w.controlPlane(t)
	w.objects = append(w.objects, lostWorkspace("AgentsUnavailable", "x"))
	w.workspace(t)
	for _, kind := range w.asked {
		if kind == "something else" {
			t.Errorf("read: %q", w.asked)
		}
	}
}

// TestOldPods checks that the problems are those of the newest revision.
func TestOldPods(t *testing.T) {
	old := aPod("2", crashed(1, "Error", 9))
	w := &fixture{objects: []client.Object{
		aControlPlane(brokenPart("DeploymentAvailable", "ImagePullFailed", "image x cannot be pulled")...),
		aReplicaSet("2", 1, 1), aReplicaSet("4", 1, 1), old, aPod("4", waits("ErrImagePull", "manifest unknown")),
	}}
	r := w.controlPlane(t)
	expectation{object: coderPod, says: "no such image"}.check(t, r)
	for _, p := range r.Problems {
		if strings.Contains(p.Object, old.Name) {
			t.Errorf("a problem of an old pod: %+v", p)
		}
	}
	if len(r.Pods) != 2 {
		t.Errorf("pods %+v", r.Pods)
	}
}

// TestFailedTemplates checks that the diagnosis of a control plane reports templates that
// failed to build, with the error in the log if the template has only the exit status.
func TestFailedTemplates(t *testing.T) {
	r := templateFixture().controlPlane(t)
	expectation{healthy: true, object: "CoderTemplate/coder.k8s", says: "on broken.tf line 1:", do: `version "v3" stays active; correct the template`}.check(t, r)
	if len(r.Logs) != 1 || !strings.HasPrefix(r.Logs[0].Text, "Error: Invalid block definition") {
		t.Errorf("%+v", r.Logs)
	}
}

// workspaceFixture returns a workspace with a pod that cannot be scheduled.
func workspaceFixture() *fixture {
	ws := lostWorkspace("AgentsUnavailable", "agents that are not connected: main is timeout")
	pod := unschedulable("0/1 nodes are available: 1 Insufficient memory.")
	pod.Namespace, pod.Labels = "work", map[string]string{aggregationv1alpha1.LabelWorkspaceID: ws.Status.ID}
	other := aPod("4", crashed(1, "Error", 1))
	other.Namespace, other.Name, other.Labels = "work", "other", map[string]string{aggregationv1alpha1.LabelWorkspaceID: "another"}
	event := anEvent("Pod", "coder-r4-xxxxx", "FailedScheduling", "0/1 nodes are available")
	event.Namespace, event.InvolvedObject.Namespace = "work", "work"
	foreign := event.DeepCopy()
	foreign.Name, foreign.InvolvedObject.Name = "other", "other"
	cp := aControlPlane(working()...)
	cp.Spec.RBAC.WorkspaceNamespaces = []string{"work"}
	return &fixture{objects: []client.Object{ws, cp, aTemplate(), pod, other, event, foreign}}
}

func TestGatheredWorkspace(t *testing.T) {
	for _, forbidden := range []string{"", pods + " in all namespaces"} {
		w := workspaceFixture()
		w.forbidden = []string{forbidden}
		r := w.workspace(t)
		if len(r.Gaps) > 0 || len(r.Pods) != 1 || r.Pods[0].Namespace != "work" || len(r.Events) != 1 || r.Build == nil || r.Build.Number != 4 {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(r.Summary, "Insufficient memory") {
			t.Errorf("%+v", r.Problems)
		}
	}
}

// TestGapsOfWorkspace checks the gaps for a caller who may read only the workspace.
func TestGapsOfWorkspace(t *testing.T) {
	w := workspaceFixture()
	w.forbidden = []string{pods, pods + " in all namespaces", replicaSets, controlPlanes, templates, listOfTemplates, provisioners}
	r := w.workspace(t)
	want := []string{
		`could not read codercontrolplanes coder/coder: user "alice" may not get codercontrolplanes`,
		`could not read coderprovisioners in namespace coder: user "alice" may not list coderprovisioners`,
		`could not read codertemplates in namespace coder: user "alice" may not list codertemplates`,
		`could not read pods in namespace coder: user "alice" may not list pods`,
		`could not read replicasets in namespace coder: user "alice" may not list replicasets`,
	}
	if strings.Join(r.Gaps, "\n") != strings.Join(want, "\n") {
		t.Errorf("gaps:\n%s", strings.Join(r.Gaps, "\n"))
	}
	if !strings.Contains(r.Summary, "main is timeout") || !strings.Contains(r.Summary, "Some causes may be in what could not be read") {
		t.Errorf("the summary is %q", r.Summary)
	}
}

// TestRenamedTemplate checks that a diagnosis finds the template of a workspace by its current
// name in Coder: of a workspace that was made before the template was renamed, and after that.
func TestRenamedTemplate(t *testing.T) {
	theirs := aTemplate()
	theirs.Status.TemplateName = "k9s"
	other := aTemplate()
	other.Name = "coder.k9s"
	for made, first := range map[string]string{"before": "k8s", "after": "k9s"} {
		ws := failedWorkspace("terraform apply: exit status 1")
		ws.Spec.TemplateName, ws.Status.TemplateName = first, "k9s"
		w := &fixture{objects: []client.Object{ws, aControlPlane(working()...), theirs, other}}
		if r := w.workspace(t); r.Build.Template != "coder.k8s" {
			t.Errorf("made %s: %+v", made, r.Build)
		}
		w.objects = w.objects[:2]
		expectation{object: "CoderTemplate/coder." + first, says: "it does not exist"}.check(t, w.workspace(t))
	}
}

// TestTemplateWithoutList checks that the template of a caller who may not list templates is
// read by the name of its object, unless that is the object of another template.
func TestTemplateWithoutList(t *testing.T) {
	ws, template := runningWorkspace(), aTemplate()
	w := &fixture{objects: []client.Object{ws, aControlPlane(working()...), template}, forbidden: []string{listOfTemplates}}
	if found, err := TemplateOf(asAlice(t), w.kube(t), ws); err != nil || found == nil || found.Name != template.Name {
		t.Errorf("%+v, %v", found, err)
	}
	template.Status.TemplateName = "k9s"
	if r := w.workspace(t); len(r.Problems) > 0 || len(r.Gaps) != 1 || !strings.HasSuffix(r.Gaps[0], "may not list codertemplates") {
		t.Errorf("%+v, gaps %q", r.Problems, r.Gaps)
	}
}

// TestAggregatedAPIAway checks that a 503 leads to a report with the conditions of the
// control planes.
func TestAggregatedAPIAway(t *testing.T) {
	w := &fixture{
		objects: []client.Object{aControlPlane(brokenPart("DeploymentAvailable", "DatabaseUnreachable", "Coder cannot use its database: refused")...)},
		errs:    map[string]error{workspaces: apierrors.NewServiceUnavailable("CoderControlPlane coder/coder is not available (Syncing since x): no answer")},
	}
	r := w.workspace(t)
	expectation{object: ourself, says: "cannot use its database"}.check(t, r)
	expectation{object: "CoderWorkspace/coder.ada.dev", says: "CoderControlPlane coder/coder is not available", do: "diagnose_control_plane"}.check(t, r)
	w.objects = nil
	if r := w.workspace(t); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Do, "check_health") {
		t.Errorf("%+v", r)
	}
}

func TestNewestEvents(t *testing.T) {
	var all []corev1.Event
	for i := range mostEvents + 10 {
		e := anEvent("Pod", "p", "R", "m")
		e.LastTimestamp = metav1.NewTime(now.Add(time.Duration(i) * time.Second))
		all = append(all, *e)
	}
	series := anEvent("Pod", "p", "Series", "m")
	series.LastTimestamp, series.Series = metav1.Time{}, &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(now.Add(time.Hour))}
	all = append(all, *series)
	facts, r := podFacts{events: newest(all, mostEvents, func(corev1.ObjectReference) bool { return true })}, &Report{}
	facts.describe(r)
	got := r.Events
	if len(got) != mostEvents || got[0].Reason != "Series" || got[0].Count != 7 || got[0].Time != "2026-11-20T13:00:00Z" || got[1].Time != "2026-11-20T12:00:29Z" {
		t.Errorf("%d events, the first two are %+v", len(got), got[:2])
	}
}
