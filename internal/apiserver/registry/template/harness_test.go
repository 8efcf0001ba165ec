package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	namespace = "team"
	mainTF    = "main.tf"
)

var controlPlane = types.NamespacedName{Namespace: namespace, Name: "prod"}

// fixture has a Coder, the records, and a Kind with minimal versions of a Store and a mirror.
type fixture struct {
	t       *testing.T
	ctx     context.Context
	coder   *coderdtest.Server
	records *recordstest.Records
	// fault kills only the Kind.
	fault   *kubetest.Fault
	clock   *clocktesting.FakeClock
	watcher *coderd.Client
	kind    *Kind
	// log holds the objects of the log by name.
	log map[string]*aggregationv1alpha1.CoderTemplate
	// secrets are keyed by "name/key". denied are the Secrets that the user may not get.
	secrets map[string]string
	denied  map[string]bool
	tests   *fakeTests
	token   string
	// starter is a template that was created in Coder.
	starter uuid.UUID
	hints   hints
}

// hints counts the hints.
type hints int

// Object implements registry.Hints.
func (h *hints) Object(string, types.NamespacedName, uuid.UUID) { *h++ }

func newFixture(t *testing.T, options ...coderdtest.Option) *fixture {
	t.Helper()
	f := &fixture{
		t: t, coder: coderdtest.New(t, options...), records: recordstest.New(t), fault: &kubetest.Fault{},
		clock: clocktesting.NewFakeClock(time.Now()), log: map[string]*aggregationv1alpha1.CoderTemplate{},
		secrets: map[string]string{}, denied: map[string]bool{}, tests: &fakeTests{objects: map[string]*coderv1alpha1.CoderTemplateTest{}},
	}
	f.ctx = request.WithUser(t.Context(), &user.DefaultInfo{Name: "ada"})
	f.token = f.coder.AddUser("operator", "owner")
	f.coder.AddUser("ada", "member")
	f.starter = f.coder.AddTemplate("coder", "starter", map[string]string{mainTF: "# one"})
	var err error
	if f.watcher, err = coderd.New(coderd.Config{URL: f.coder.URL, Token: f.token}); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.sync()
	f.coder.ResetRequests()
	return f
}

// restart simulates a new process, which has the log, Coder and the records.
func (f *fixture) restart() {
	f.t.Helper()
	f.fault.Set(0, false)
	client, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: f.token, Transport: f.fault})
	if err != nil {
		f.t.Fatal(err)
	}
	f.kind = New(Config{Config: registry.Config{
		Connections: fixedProvider{connections.Connection{ControlPlane: controlPlane, Client: client}},
		Records:     recordstest.Mortal{Records: f.records, Fault: f.fault},
		Typer:       runtime.NewScheme(),
		Clock:       f.clock,
		Hints:       &f.hints,
	}, Tests: mortalTests{f.tests, f.fault}, Secrets: registry.Secrets{
		Read: f.readSecret,
		MayRead: func(_ context.Context, who user.Info, ns, name string) error {
			if f.denied[name] {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, fmt.Errorf("%s may not get it in %s", who.GetName(), ns))
			}
			return nil
		},
	}})
}

func (f *fixture) readSecret(_ context.Context, ns, name, key string) (string, error) {
	value, ok := f.secrets[name+"/"+key]
	if !ok || ns != namespace {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return value, nil
}

// fixedProvider provides a single control plane.
type fixedProvider struct{ connection connections.Connection }

func (p fixedProvider) ForNamespace(_ context.Context, ns string) ([]connections.Connection, error) {
	if ns != p.connection.ControlPlane.Namespace {
		return nil, nil
	}
	return []connections.Connection{p.connection}, nil
}

func (p fixedProvider) Members(context.Context) ([]connections.Member, error) {
	return []connections.Member{{ControlPlane: p.connection.ControlPlane, Named: true, Connection: &p.connection}}, nil
}

// pass is one pass of the mirror over all templates. It reports whether an operation is in
// progress.
func (f *fixture) pass() (again bool) {
	f.t.Helper()
	f.clock.Step(2 * time.Second)
	f.tests.run()
	items, err := f.watcher.Templates(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	found := map[string]*aggregationv1alpha1.CoderTemplate{}
	for _, item := range items {
		record := f.recordOf(item)
		obj, err := f.kind.Object(f.ctx, f.connection(), item, record, f.byID(item.ID))
		if err != nil {
			f.t.Fatal(err)
		}
		found[obj.GetName()] = obj.(*aggregationv1alpha1.CoderTemplate)
		more, err := f.kind.Settle(f.ctx, f.connection(), item, record)
		if err != nil {
			f.t.Logf("settling: %v", err)
		}
		again = again || more
	}
	f.log = found
	return again
}

// recordOf does what the mirror does: it binds a pending record to its object.
func (f *fixture) recordOf(item coderd.Template) *metadata.Record {
	uid := types.UID(item.ID.String())
	if record, ok := f.records.Get(controlPlane, uid); ok {
		return record
	}
	pending, ok := f.records.PendingFor(controlPlane, info.Kind, "coder."+item.Name)
	if !ok {
		return nil
	}
	bound, err := f.records.Bind(f.ctx, pending, uid)
	if err != nil {
		f.t.Fatal(err)
	}
	return bound
}

func (f *fixture) byID(id uuid.UUID) records.Object {
	for _, tmpl := range f.log {
		if tmpl.Status.ID == id.String() {
			return tmpl
		}
	}
	return nil
}

func (f *fixture) connection() connections.Connection {
	return f.kind.Connections.(fixedProvider).connection
}

// sync runs passes of the mirror until nothing is left to do.
func (f *fixture) sync() {
	f.t.Helper()
	for range 30 {
		if !f.pass() {
			f.pass()
			return
		}
	}
	f.t.Fatalf("it does not come to rest: %v", f.picture())
}

// build finishes all builds, with passes of the mirror around it.
func (f *fixture) build() {
	f.t.Helper()
	f.pass()
	f.coder.FinishBuilds()
	f.sync()
}

func newTemplateObject(name string, spec aggregationv1alpha1.CoderTemplateSpec) *aggregationv1alpha1.CoderTemplate {
	return &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: map[string]string{"note": "kept"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}},
	}, Spec: spec}
}

// create does what the Store does for POST.
func (f *fixture) create(name string, spec aggregationv1alpha1.CoderTemplateSpec) error {
	f.t.Helper()
	tmpl := newTemplateObject(name, spec)
	strategy := f.kind.strategy()
	strategy.PrepareForCreate(f.ctx, tmpl)
	if errs := strategy.Validate(f.ctx, tmpl); len(errs) > 0 {
		return apierrors.NewInvalid(kind, name, errs)
	}
	if _, exists := f.log[name]; exists {
		return apierrors.NewAlreadyExists(resource, name)
	}
	return f.write(nil, tmpl)
}

// update does what the Store does for PATCH. An update without changes is not written, and one of an outdated object
// is repeated.
func (f *fixture) update(name string, change func(*aggregationv1alpha1.CoderTemplate)) error {
	f.t.Helper()
	return f.updateIn(f.ctx, name, change)
}

func (f *fixture) updateIn(ctx context.Context, name string, change func(*aggregationv1alpha1.CoderTemplate)) error {
	f.t.Helper()
	for {
		was, ok := f.log[name]
		if !ok {
			return apierrors.NewNotFound(resource, name)
		}
		wanted := was.DeepCopy()
		change(wanted)
		strategy := f.kind.strategy()
		strategy.PrepareForUpdate(ctx, wanted, was)
		if errs := strategy.ValidateUpdate(ctx, wanted, was); len(errs) > 0 {
			return apierrors.NewInvalid(kind, name, errs)
		}
		if equality.Semantic.DeepEqual(was, wanted) {
			return nil
		}
		err := f.write(was, wanted)
		newer, ok := errors.AsType[*records.NewerError](err)
		if !ok {
			return err
		}
		f.log[name] = newer.Object.(*aggregationv1alpha1.CoderTemplate)
	}
}

// write writes, and checks that no input object is modified.
func (f *fixture) write(was, wanted *aggregationv1alpha1.CoderTemplate) error {
	f.t.Helper()
	wasBefore, wantedBefore := was.DeepCopy(), wanted.DeepCopy()
	var current, next records.Object
	name := ""
	if was != nil {
		current, name = was, was.Name
	}
	if wanted != nil {
		next, name = wanted, wanted.Name
	}
	got, err := f.kind.Write(f.ctx, "/aggregation.coder.com/codertemplates/"+namespace+"/"+name, current, next)
	if diff := cmp.Diff(wasBefore, was) + cmp.Diff(wantedBefore, wanted); diff != "" {
		f.t.Errorf("an object was written to:\n%s", diff)
	}
	if err != nil {
		return err
	}
	delete(f.log, name)
	if got != nil {
		f.log[name] = got.(*aggregationv1alpha1.CoderTemplate)
	}
	return nil
}

// files returns a change of the source.
func files(text string) func(*aggregationv1alpha1.CoderTemplate) {
	return func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Files = map[string]string{mainTF: text} }
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get(name string) *aggregationv1alpha1.CoderTemplate {
	f.t.Helper()
	tmpl, ok := f.log[name]
	if !ok {
		f.t.Fatalf("there is no %q", name)
	}
	return tmpl
}

// condition returns status and reason of a condition.
func condition(tmpl *aggregationv1alpha1.CoderTemplate, kind string) string {
	c := meta.FindStatusCondition(tmpl.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func (f *fixture) mustBe(name, ready, source string) {
	f.t.Helper()
	tmpl := f.get(name)
	if got := condition(tmpl, "Ready"); got != ready {
		f.t.Errorf("Ready is %q, want %q: %+v", got, ready, tmpl.Status.Conditions)
	}
	if got := tmpl.Spec.Files[mainTF]; got != source {
		f.t.Errorf("the source is %q, want %q", got, source)
	}
}

// mustBeInvalid checks that err is 422 with the field and the text.
func mustBeInvalid(t *testing.T, err error, field, says string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsInvalid(err) {
		t.Fatalf("%v, want invalid", err)
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field && strings.Contains(cause.Message, says) {
			return
		}
	}
	t.Errorf("%v; want a cause for %s with %q", err, field, says)
}

// picture returns the resulting state, without IDs and times.
func (f *fixture) picture() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(f.log)) {
		tmpl := f.log[name]
		lines = append(lines, fmt.Sprintf("%s files=%v display=%q ttl=%d ready=%s synced=%s stalled=%s annotations=%v observed=%t",
			name, tmpl.Spec.Files, tmpl.Spec.DisplayName, *tmpl.Spec.DefaultTTLMillis, condition(tmpl, "Ready"), condition(tmpl, "Synced"),
			condition(tmpl, "Stalled"), tmpl.Annotations, tmpl.Status.ObservedGeneration == tmpl.Generation))
		lines = append(lines, "  active is latest: "+fmt.Sprint(tmpl.Status.ActiveVersionID == tmpl.Status.LatestVersionID))
	}
	lines = append(lines, fmt.Sprintf("versions=%d tests=%d", f.coder.VersionCount(), len(f.tests.objects)))
	for _, record := range f.records.List(controlPlane) {
		in, err := registry.ReadIntent[intent](record)
		lines = append(lines, fmt.Sprintf("record of %s pending=%t settled=%t error=%v", record.Name, record.Pending(), in.Release == nil || in.Release.Settled, err))
	}
	slices.Sort(lines[len(lines)-len(f.records.List(controlPlane)):])
	return strings.Join(lines, "\n")
}
