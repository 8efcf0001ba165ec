package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// mostPasses limits the passes until nothing changes any more.
const mostPasses = 30

// templateFiles has parameters of each type, and presets.
const templateFiles = `
data "coder_parameter" "size" {
  name = "size"
  type = "number"
  default = "1"
  mutable = true
  validation {
    min = 1
    max = 8
    monotonic = "increasing"
  }
}
data "coder_parameter" "region" {
  name = "region"
  type = "string"
  default = "eu"
  option {
    name = "Europe"
    value = "eu"
  }
  option {
    name = "America"
    value = "us"
  }
}
data "coder_parameter" "note" {
  name = "note"
  type = "string"
  default = "none"
  mutable = true
  validation {
    regex = "^[a-z]+$"
    error = "small letters"
  }
}
data "coder_parameter" "once" {
  name = "once"
  type = "bool"
  default = "false"
  mutable = true
  ephemeral = true
}
data "coder_workspace_preset" "big" {
  name = "big"
  parameters = {
    "size" = "4"
    "note" = "large"
  }
}
`

// provider provides a single control plane.
type provider struct {
	connection connections.Connection
	err        error
}

func (p *provider) ForNamespace(_ context.Context, namespace string) ([]connections.Connection, error) {
	if p.err != nil || namespace != p.connection.ControlPlane.Namespace {
		return nil, p.err
	}
	return []connections.Connection{p.connection}, nil
}

func (p *provider) Members(context.Context) ([]connections.Member, error) {
	member := connections.Member{ControlPlane: p.connection.ControlPlane, Named: true}
	if p.err == nil {
		member.Connection = &p.connection
	}
	return []connections.Member{member}, nil
}

// fixture has a Coder, its records, and a log that the test writes.
type fixture struct {
	t        *testing.T
	coder    *coderdtest.Server
	clock    *clocktesting.FakePassiveClock
	records  recordstest.Mortal
	fault    *kubetest.Fault
	provider *provider
	kind     *Kind
	template uuid.UUID
	log      map[types.UID]*aggregationv1alpha1.CoderWorkspace
	revision int
}

func newFixture(t *testing.T, options ...coderdtest.Option) *fixture {
	t.Helper()
	w := &fixture{
		t: t, fault: &kubetest.Fault{}, log: map[types.UID]*aggregationv1alpha1.CoderWorkspace{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)),
	}
	w.coder = coderdtest.New(t, append([]coderdtest.Option{coderdtest.WithClock(w.clock)}, options...)...)
	token := w.coder.AddUser("operator", "owner")
	w.coder.AddUser("ada", "member")
	w.template = w.coder.AddTemplate("coder", "starter", map[string]string{"main.tf": templateFiles})
	w.records = recordstest.Mortal{Records: recordstest.NewWithClock(t, w.clock), Fault: w.fault}
	client, err := coderd.New(coderd.Config{URL: w.coder.URL, Token: token, Transport: w.fault})
	if err != nil {
		t.Fatal(err)
	}
	w.provider = &provider{connection: connections.Connection{
		ControlPlane: types.NamespacedName{Namespace: "team", Name: "cp"}, Client: client,
	}}
	w.restart()
	return w
}

// restart simulates a new process, which has only the stored state.
func (w *fixture) restart() {
	w.kind = New(Config{Config: registry.Config{Connections: w.provider, Records: w.records, Clock: w.clock}})
}

func (w *fixture) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// commit writes an object to the log.
func (w *fixture) commit(obj records.Object) *aggregationv1alpha1.CoderWorkspace {
	w.t.Helper()
	ws := obj.(*aggregationv1alpha1.CoderWorkspace)
	w.check(ws)
	if was := w.log[records.IDOf(ws)]; was != nil && equality.Semantic.DeepEqual(withoutRevision(was), withoutRevision(ws)) {
		return was
	}
	stored := ws.DeepCopy()
	w.revision++
	stored.ResourceVersion = fmt.Sprint(w.revision)
	w.log[records.IDOf(ws)] = stored
	return stored
}

func withoutRevision(ws *aggregationv1alpha1.CoderWorkspace) *aggregationv1alpha1.CoderWorkspace {
	out := ws.DeepCopy()
	out.ResourceVersion = ""
	return out
}

// check verifies the invariants of every object.
func (w *fixture) check(ws *aggregationv1alpha1.CoderWorkspace) {
	w.t.Helper()
	if !slices.Contains(ws.Finalizers, aggregationv1alpha1.FinalizerWorkspace) || ws.Labels[aggregationv1alpha1.LabelControlPlaneName] != "cp" ||
		ws.UID == "" || ws.Namespace != "team" || len(ws.ManagedFields) == 0 || ws.Annotations[actionAnnotation] != "" {
		w.t.Errorf("metadata: %+v", ws.ObjectMeta)
	}
	if ws.Status.ObservedGeneration > ws.Generation || ws.Generation < 1 {
		w.t.Errorf("generation %d, observed %d", ws.Generation, ws.Status.ObservedGeneration)
	}
	for _, c := range ws.Status.Conditions {
		if c.Message == "" || c.Reason == "" || c.LastTransitionTime.IsZero() || c.LastTransitionTime.Nanosecond() != 0 ||
			c.ObservedGeneration != ws.Status.ObservedGeneration && c.Reason != "CoderUnreachable" {
			w.t.Errorf("condition %+v", c)
		}
	}
}

// mirror reads all workspaces as the mirror does, until nothing changes any more.
func (w *fixture) mirror() {
	w.t.Helper()
	for range mostPasses {
		again, err := w.look()
		if err != nil {
			w.t.Fatalf("mirroring: %v", err)
		}
		if !again {
			return
		}
	}
	w.t.Fatal("the mirror does not come to rest")
}

// drive finishes builds and reads all workspaces until nothing changes any more.
func (w *fixture) drive() error {
	for range mostPasses {
		active := w.coder.ActiveBuilds()
		again, err := w.look()
		if err != nil {
			return err
		}
		w.coder.FinishBuilds()
		if w.coder.ActiveBuilds() == active && !again {
			// None is left, except those that no provisioner can take.
			return nil
		}
	}
	return errors.New("the mirror does not come to rest")
}

// look reads all workspaces once.
func (w *fixture) look() (again bool, err error) {
	ctx, connection := context.Background(), w.provider.connection
	all, err := connection.Client.WorkspacePage(ctx, 0, coderd.MaxWorkspacePage)
	if err != nil {
		return false, err
	}
	seen := map[types.UID]bool{}
	for _, item := range all.Workspaces {
		uid := types.UID(item.ID.String())
		seen[uid] = true
		record, err := w.recordFor(ctx, item)
		if err != nil {
			return false, err
		}
		var previous records.Object
		if was := w.log[uid]; was != nil {
			previous = was
		}
		obj, err := w.kind.Object(ctx, connection, item, record, previous)
		if err != nil {
			return false, err
		}
		before := w.revision
		w.commit(obj)
		more, err := w.kind.Settle(ctx, connection, item, record)
		if err != nil {
			return false, err
		}
		// The test itself finishes a running build and looks again.
		again = again || w.revision != before || more && !isActive(item.LatestBuild)
	}
	for uid := range w.log {
		if !seen[uid] {
			delete(w.log, uid)
		}
	}
	for _, record := range w.records.List(connection.ControlPlane) {
		if record.UID != "" && !seen[record.UID] {
			if err := w.records.Delete(ctx, record); err != nil {
				return false, err
			}
		}
	}
	return again, nil
}

// recordFor returns the record of a workspace, also one that was written before the workspace was
// created.
func (w *fixture) recordFor(ctx context.Context, item coderd.Workspace) (*metadata.Record, error) {
	cp, uid := w.provider.connection.ControlPlane, types.UID(item.ID.String())
	if record, ok := w.records.Get(cp, uid); ok {
		return record, nil
	}
	pending, ok := w.records.PendingFor(cp, info.Kind, strings.ToLower(item.OrganizationName+"."+item.OwnerName+"."+item.Name))
	if !ok || item.CreatedAt.Before(pending.CreatedAt.Time) {
		return nil, nil
	}
	return w.records.Bind(ctx, pending.DeepCopy(), uid)
}

// object returns the object of that name in the log.
func (w *fixture) object(name string) *aggregationv1alpha1.CoderWorkspace {
	for _, ws := range w.log {
		if ws.Name == name {
			return ws
		}
	}
	return nil
}

// create does what the library's Store does with a new object.
func (w *fixture) create(ws *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	w.t.Helper()
	ctx, ws := context.Background(), ws.DeepCopy()
	if w.object(ws.Name) != nil {
		return nil, apierrors.NewAlreadyExists(resource, ws.Name)
	}
	ws.UID = types.UID(uuid.NewString())
	strategy{}.PrepareForCreate(ctx, ws)
	if errs := (strategy{}).Validate(ctx, ws); len(errs) > 0 {
		return nil, apierrors.NewInvalid(kind, ws.Name, errs)
	}
	if err := w.kind.CheckCreate(ctx, ws); err != nil {
		return nil, err
	}
	made, err := w.kind.Write(ctx, "key", nil, ws)
	if err != nil {
		return nil, err
	}
	return w.commit(made), nil
}

// update does what the library's Store does with a change.
func (w *fixture) update(ctx context.Context, name string, change func(*aggregationv1alpha1.CoderWorkspace)) (*aggregationv1alpha1.CoderWorkspace, error) {
	w.t.Helper()
	current := w.object(name)
	if current == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	wanted, before := current.DeepCopy(), current.DeepCopy()
	change(wanted)
	strategy{}.PrepareForUpdate(ctx, wanted, current)
	if errs := (strategy{}).ValidateUpdate(ctx, wanted, current); len(errs) > 0 {
		return nil, apierrors.NewInvalid(kind, name, errs)
	}
	if equality.Semantic.DeepEqual(wanted, current) {
		return current, nil
	}
	asked := wanted.DeepCopy()
	made, err := w.kind.Write(ctx, "key", current, wanted)
	if !equality.Semantic.DeepEqual(before, current) || !equality.Semantic.DeepEqual(asked, wanted) {
		w.t.Error("a write changed what it was given")
	}
	if err != nil {
		return nil, err
	}
	return w.commit(made), nil
}

// delete does what the library's Store does with a deletion.
func (w *fixture) delete(name string) error {
	w.t.Helper()
	return w.deleteAs(context.Background(), name)
}

func (w *fixture) deleteAs(ctx context.Context, name string) error {
	w.t.Helper()
	_, err := w.update(ctx, name, func(ws *aggregationv1alpha1.CoderWorkspace) {
		if ws.DeletionTimestamp == nil {
			now := metav1.NewTime(w.clock.Now())
			ws.DeletionTimestamp = &now
		}
		ws.DeletionGracePeriodSeconds = new(int64)
	})
	return err
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// mustUpdate updates an object and fails the test on an error.
func (w *fixture) mustUpdate(name string, change func(*aggregationv1alpha1.CoderWorkspace)) *aggregationv1alpha1.CoderWorkspace {
	w.t.Helper()
	ws, err := w.update(context.Background(), name, change)
	w.must(err)
	return ws
}

// newWorkspace returns an object as a client sends it.
func newWorkspace(name string, changes ...func(*aggregationv1alpha1.CoderWorkspace)) *aggregationv1alpha1.CoderWorkspace {
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team"},
		Spec:       aggregationv1alpha1.CoderWorkspaceSpec{TemplateName: "starter"},
	}
	for _, change := range changes {
		change(ws)
	}
	return ws
}

func labelled(key, v string) func(*aggregationv1alpha1.CoderWorkspace) {
	return func(ws *aggregationv1alpha1.CoderWorkspace) {
		if ws.Labels == nil {
			ws.Labels = map[string]string{}
		}
		ws.Labels[key] = v
	}
}

func running(v bool) func(*aggregationv1alpha1.CoderWorkspace) {
	return func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.Running = &v }
}

func parameter(name, v string) func(*aggregationv1alpha1.CoderWorkspace) {
	return func(ws *aggregationv1alpha1.CoderWorkspace) {
		i := slices.IndexFunc(ws.Spec.Parameters, func(p aggregationv1alpha1.WorkspaceParameter) bool { return p.Name == name })
		if i >= 0 {
			ws.Spec.Parameters[i].Value = v
			return
		}
		ws.Spec.Parameters = append(ws.Spec.Parameters, aggregationv1alpha1.WorkspaceParameter{Name: name, Value: v})
	}
}

// conditionOf returns the status and the reason of a condition, for example "True Synced", or "" if
// it is missing.
func conditionOf(ws *aggregationv1alpha1.CoderWorkspace, kind string) string {
	c := meta.FindStatusCondition(ws.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// wantInvalid checks that err is 422 with a cause at the field.
func wantInvalid(t *testing.T, err error, at, hint string) {
	t.Helper()
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatalf("%v, want 422", err)
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == at && strings.Contains(cause.Message, hint) {
			return
		}
	}
	t.Errorf("%v does not name %s with %q", err, at, hint)
}

// transitions returns the transitions of the builds of a workspace.
func (w *fixture) transitions(ws *aggregationv1alpha1.CoderWorkspace) string {
	return strings.Join(w.coder.Transitions(uuid.MustParse(string(records.IDOf(ws)))), " ")
}

// item reads a workspace from Coder.
func (w *fixture) item(ws *aggregationv1alpha1.CoderWorkspace) coderd.Workspace {
	w.t.Helper()
	item, err := w.provider.connection.Client.Workspace(context.Background(), uuid.MustParse(string(records.IDOf(ws))))
	w.must(err)
	return item
}
