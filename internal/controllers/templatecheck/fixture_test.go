package templatecheck

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	namespace = "coder"
	name      = "smoke"
	tester    = "tester"
	testUID   = "0b5e1c8a-7f3e-4b0e-9c55-3f2a8a6d1e11"
)

// fixture runs the controller against a fake cluster and a fake Coder.
type fixture struct {
	*controllertest.Fixture[*coderv1alpha1.CoderTemplateTest]
	coder *coderdtest.Server
	// direct is a client of the operator's account without faults.
	direct   *coderd.Client
	client   *coderd.Client
	template uuid.UUID
	r        *Reconciler
	// away means that Coder cannot be called.
	away bool
	// agents are those of a workspace that runs.
	agents []coderdtest.Agent
}

func newFixture(t testing.TB, changes ...func(*coderv1alpha1.CoderTemplateTest)) *fixture {
	t.Helper()
	f := &fixture{
		Fixture: controllertest.New(t, controllertest.Options[*coderv1alpha1.CoderTemplateTest]{
			Name: types.NamespacedName{Namespace: namespace, Name: name},
			Status: func(test *coderv1alpha1.CoderTemplateTest) *coderv1alpha1.WorkloadStatus {
				return &coderv1alpha1.WorkloadStatus{Conditions: test.Status.Conditions}
			},
		}),
		agents: []coderdtest.Agent{{Name: "main", Status: "connected", LifecycleState: "ready"}},
	}
	f.World = f.build
	f.coder = coderdtest.New(t, coderdtest.WithClock(f.Clock), coderdtest.WithManualBuilds())
	token := f.coder.AddUser("operator", "owner")
	f.coder.AddUser(tester)
	f.template = f.coder.AddTemplate("coder", "hello", nil)
	newClient := func(cfg coderd.Config) *coderd.Client {
		cfg.URL, cfg.Token = f.coder.URL, token
		client, err := coderd.New(cfg)
		f.Must(err)
		return client
	}
	f.direct, f.client = newClient(coderd.Config{}), newClient(coderd.Config{Transport: f.Fault.Writes()})
	f.Build(newTest(changes...), newControlPlane())
	f.restart()
	return f
}

// restart creates a new controller with empty state, like a new process.
func (f *fixture) restart() {
	f.Fault.Set(0, false)
	kit := framework.NewWith(f.Cluster, f.Cluster, f.Events, framework.Options{Clock: f.Clock, CheckAuthor: kubetest.AnyAuthor})
	f.r = New(kit, f)
	f.Reconciler = f.r
}

// ForNamespace implements Connector.
func (f *fixture) ForNamespace(context.Context, string) ([]connections.Connection, error) {
	if f.away {
		return nil, &connections.UnavailableError{ControlPlanes: []string{"coder/coder: the operator has no access to it yet"}}
	}
	return []connections.Connection{{ControlPlane: types.NamespacedName{Namespace: namespace, Name: "coder"}, Client: f.client}}, nil
}

// workspaces returns the workspaces in Coder.
func (f *fixture) workspaces() []coderd.Workspace {
	f.T.Helper()
	all, err := f.direct.Workspaces(f.T.Context())
	f.Must(err)
	return all
}

// workspace returns the only workspace in Coder.
func (f *fixture) workspace() coderd.Workspace {
	f.T.Helper()
	all := f.workspaces()
	if len(all) != 1 {
		f.T.Fatalf("%d workspaces, want one", len(all))
	}
	return all[0]
}

// build sets the agents of each new workspace and finishes all builds. It reports whether it changed something.
func (f *fixture) build() (changed bool) {
	for _, w := range f.workspaces() {
		if w.LatestBuild.Status == "pending" && w.LatestBuild.Transition == coderd.TransitionStart {
			f.coder.SetAgents(w.ID, f.agents...)
		}
	}
	changed = f.coder.ActiveBuilds() > 0
	f.coder.FinishBuilds()
	return changed
}

// runs reconciles n times, with the world in between.
func (f *fixture) runs(n int) {
	f.T.Helper()
	for range n {
		f.Reconcile()
		f.world()
	}
}

func (f *fixture) world() { f.Fault.Without(func() { f.World() }) }

// finishes reconciles until the test is finished and its workspace is gone.
func (f *fixture) finishes() *coderv1alpha1.CoderTemplateTest {
	f.T.Helper()
	for range 20 {
		f.runs(1)
		if test := f.Object(); test.Status.CompletionTime != nil && !hasWorkspace(test) {
			return test
		}
		f.Forward(pollInterval)
	}
	f.T.Fatalf("it is not finished: %+v", f.Object().Status)
	return nil
}

// fails is finishes for a test that fails with a reason, at a check.
func (f *fixture) fails(reason, check string) string {
	f.T.Helper()
	test := f.finishes()
	if test.Status.Phase != coderv1alpha1.TemplateTestFailed || test.Status.FailedCheck != check {
		f.T.Errorf("phase %s at %q, want Failed at %q: %+v", test.Status.Phase, test.Status.FailedCheck, check, test.Status.Conditions)
	}
	ready := f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, reason)
	f.MustHave(coderv1alpha1.ConditionFinished, metav1.ConditionTrue, reason)
	f.MustBe("after a failure", controllertest.KstatusFailed)
	if n := f.Events.Count("Warning " + reason); n != 1 {
		f.T.Errorf("%d Events about it: %q", n, f.Events.All())
	}
	return ready.Message
}

func (f *fixture) reason() string {
	f.T.Helper()
	return reasonOf(f.Object(), coderv1alpha1.ConditionReady)
}

func newTest(changes ...func(*coderv1alpha1.CoderTemplateTest)) *coderv1alpha1.CoderTemplateTest {
	test := &coderv1alpha1.CoderTemplateTest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: testUID, Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
		},
		Spec: coderv1alpha1.CoderTemplateTestSpec{
			ControlPlaneRef: coderv1alpha1.ControlPlaneReference{Name: "coder"}, Template: "coder.hello",
			Version: coderv1alpha1.TemplateTestVersion{Active: true}, TimeoutSeconds: 900,
		},
	}
	for _, change := range changes {
		change(test)
	}
	return test
}

func newControlPlane() *coderv1alpha1.CoderControlPlane {
	return &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: namespace, UID: "cp-uid"},
		Spec:       coderv1alpha1.CoderControlPlaneSpec{TemplateTests: &coderv1alpha1.TemplateTestsSpec{OwnerUsername: tester, MaxConcurrent: 2}},
	}
}

func (f *fixture) editControlPlane(change func(*coderv1alpha1.TemplateTestsSpec)) {
	f.T.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("coder", cp)
	change(cp.Spec.TemplateTests)
	f.Update(cp)
}
