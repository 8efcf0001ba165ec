package template

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

var testResource = schema.GroupResource{Group: "coder.com", Resource: "codertemplatetests"}

// fakeTests has the CoderTemplateTests, and what kube-apiserver and the controller do with them.
type fakeTests struct {
	objects map[string]*coderv1alpha1.CoderTemplateTest
	// refused is the error of a creation.
	refused error
	// results maps the names of tests to their failures, or "" for success. Others never end.
	results map[string]string
	created int
}

func (f *fakeTests) Get(_ context.Context, ns, name string) (*coderv1alpha1.CoderTemplateTest, error) {
	found, ok := f.objects[name]
	if !ok || ns != namespace {
		return nil, apierrors.NewNotFound(testResource, name)
	}
	return found.DeepCopy(), nil
}

func (f *fakeTests) Create(_ context.Context, test *coderv1alpha1.CoderTemplateTest, dryRun bool) (*coderv1alpha1.CoderTemplateTest, error) {
	switch {
	case f.refused != nil:
		return nil, f.refused
	case dryRun:
		return test, nil
	case f.objects[test.Name] != nil:
		return nil, apierrors.NewAlreadyExists(testResource, test.Name)
	}
	f.created++
	made := test.DeepCopy()
	made.UID = types.UID(uuid.NewString())
	f.objects[made.Name] = made
	return made.DeepCopy(), nil
}

// run finishes the tests as their controller does.
func (f *fakeTests) run() {
	for name, test := range f.objects {
		for wanted, failure := range f.results {
			if test.Status.Phase == coderv1alpha1.TemplateTestSucceeded || test.Status.Phase == coderv1alpha1.TemplateTestFailed || !strings.HasPrefix(name, "starter-"+wanted+"-") {
				continue
			}
			test.Status.Phase = coderv1alpha1.TemplateTestSucceeded
			if failure != "" {
				test.Status.Phase, test.Status.FailedCheck = coderv1alpha1.TemplateTestFailed, "Command/tools"
				test.Status.Conditions = []metav1.Condition{{Type: coderv1alpha1.ConditionReady, Message: failure}}
			}
		}
	}
}

// mortalTests is the connection of a process to them.
type mortalTests struct {
	*fakeTests
	fault *kubetest.Fault
}

func (m mortalTests) Create(ctx context.Context, test *coderv1alpha1.CoderTemplateTest, dryRun bool) (out *coderv1alpha1.CoderTemplateTest, err error) {
	err = m.fault.Around(func() error { out, err = m.fakeTests.Create(ctx, test, dryRun); return err })
	return out, err
}

// tested returns a change of the source with activation AfterTest, and tests with these names.
func tested(text string, names ...string) func(*aggregationv1alpha1.CoderTemplate) {
	return func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Activation, tmpl.Spec.Tests = aggregationv1alpha1.ActivationAfterTest, nil
		for _, name := range names {
			tmpl.Spec.Tests = append(tmpl.Spec.Tests, aggregationv1alpha1.TemplateTest{Name: name})
		}
		files(text)(tmpl)
	}
}

// runTests runs passes of the mirror with the tests between them.
func (f *fixture) runTests(results map[string]string) {
	f.t.Helper()
	f.coder.FinishBuilds()
	f.tests.results = results
	for range 7 {
		f.pass()
	}
}

// active returns the source of the active version.
func (f *fixture) active() string {
	f.t.Helper()
	return f.sourceOf(f.get(starter).Status.ActiveVersionID)
}

// state returns the reason of Ready, whether the template is Reconciling or Stalled, the active source, and the tests of the candidate.
func (f *fixture) state() string {
	f.t.Helper()
	tmpl := f.get(starter)
	out := fmt.Sprintf("%s reconciling=%t stalled=%t active=%q", condition(tmpl, "Ready"), strings.HasPrefix(condition(tmpl, "Reconciling"), "True"),
		strings.HasPrefix(condition(tmpl, "Stalled"), "True"), f.active())
	if c := tmpl.Status.Candidate; c != nil {
		for _, t := range c.Tests {
			out += fmt.Sprintf(" %s=%s", t.Name, t.Phase)
		}
	}
	return out
}

func (f *fixture) mustState(what, want string) {
	f.t.Helper()
	if got := f.state(); got != want {
		f.t.Fatalf("%s:\n got %s\nwant %s\n%+v", what, got, want, f.get(starter).Status)
	}
}

func TestAfterTestPromotes(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.must(f.update(starter, tested("# two", "smoke", "other")))
	f.pass()
	f.mustState("while it is built", `False BuildPending reconciling=true stalled=false active="# one"`)
	f.runTests(nil)
	f.mustState("while it is tested", `False TestsRunning reconciling=true stalled=false active="# one" smoke=Pending other=Pending`)
	for _, test := range f.get(starter).Status.Candidate.Tests {
		got, err := f.tests.Get(f.ctx, namespace, test.TestName)
		f.must(err)
		if s := got.Spec; s.Version.ID != f.get(starter).Status.Candidate.ID || s.Template != starter || s.ControlPlaneRef.Name != controlPlane.Name || s.TimeoutSeconds != 900 {
			t.Errorf("the test is %+v", s)
		}
		if !regexp.MustCompile(`^starter-(smoke|other)-[0-9a-f]{16}$`).MatchString(test.TestName) {
			t.Errorf("the name is %q", test.TestName)
		}
	}
	f.runTests(map[string]string{"smoke": ""})
	f.mustState("after the first test", `False TestsRunning reconciling=true stalled=false active="# one" smoke=Succeeded other=Pending`)
	f.restart()
	f.runTests(map[string]string{"other": ""})
	f.mustState("after both", `True Active reconciling=false stalled=false active="# two"`)
	if f.tests.created != 2 || f.get(starter).Status.Candidate != nil {
		t.Errorf("%d tests were created, and the candidate is %+v", f.tests.created, f.get(starter).Status.Candidate)
	}
	f.again(tested("# two", "smoke", "other"))

	// A version that was rolled back is neither tested nor promoted, until its files are pushed again after others.
	first := f.get(starter).Status.History[1].VersionID
	f.must(f.promote(aggregationv1alpha1.CoderTemplatePromotion{VersionID: first}))
	f.runTests(map[string]string{"smoke": "", "other": ""})
	f.mustState("rolled back", `True AwaitingPromotion reconciling=false stalled=false active="# one"`)
	f.again(tested("# two", "smoke", "other"))
	f.must(f.update(starter, tested("# three", "smoke", "other")))
	f.runTests(map[string]string{"smoke": "", "other": ""})
	f.mustState("other files", `True Active reconciling=false stalled=false active="# three"`)
	if f.tests.created != 4 {
		t.Errorf("%d tests were created", f.tests.created)
	}
}

func TestAfterTestFails(t *testing.T) {
	f := newFixture(t)
	f.must(f.update(starter, tested("# two", "smoke", "other")))
	f.runTests(map[string]string{"smoke": "", "other": "exit code 3"})
	failed := `False TestsFailed reconciling=false stalled=true active="# one" smoke=Succeeded other=Failed`
	f.mustState("failed", failed)
	c := f.get(starter).Status.Candidate.Tests[1]
	message := fmt.Sprint(f.get(starter).Status.Conditions)
	for _, part := range []string{`test "other"`, `at check "Command/tools"`, c.TestName, "exit code 3"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not in the conditions %s", part, message)
		}
	}
	if c.FailedCheck != "Command/tools" || c.Message != "exit code 3" {
		t.Errorf("the state is %+v", c)
	}
	f.coder.ResetRequests()
	before := f.records.List(controlPlane)[0].Version
	for range 5 {
		if f.pass() {
			t.Fatal("a failed candidate is still busy")
		}
	}
	if now := f.records.List(controlPlane)[0].Version; now != before {
		t.Error("a failed candidate is written again")
	}
	f.again(tested("# two", "smoke", "other"))

	// The object expires: nothing runs again. A person deletes one that is newer: its test does.
	object := f.tests.objects[c.TestName]
	delete(f.tests.objects, c.TestName)
	f.clock.Step(testTTL)
	f.runTests(map[string]string{"other": ""})
	f.mustState("expired", failed)
	f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.VersionName = "v3" }))
	f.runTests(map[string]string{"smoke": "", "other": "exit code 4"})
	f.mustState("retried with another version", failed)
	delete(f.tests.objects, f.get(starter).Status.Candidate.Tests[1].TestName)
	f.runTests(map[string]string{"smoke": "", "other": ""})
	f.mustState("deleted", `True Active reconciling=false stalled=false active="# two"`)
	if f.tests.created != 5 || object == nil {
		t.Errorf("%d tests were created", f.tests.created)
	}
}

// TestForgedTests: objects that the operator did not create promote nothing.
func TestForgedTests(t *testing.T) {
	succeeded := coderv1alpha1.CoderTemplateTestStatus{Phase: coderv1alpha1.TemplateTestSucceeded}
	for what, forge := range map[string]func(test *coderv1alpha1.CoderTemplateTest){
		"another object": func(test *coderv1alpha1.CoderTemplateTest) { test.UID = "another" },
		"another version": func(test *coderv1alpha1.CoderTemplateTest) {
			test.Spec.Version = coderv1alpha1.TemplateTestVersion{Active: true}
		},
		"another template": func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.Template = "coder.other" },
		"fewer checks":     func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.Checks = coderv1alpha1.TemplateTestChecks{} },
		"parameters": func(test *coderv1alpha1.CoderTemplateTest) {
			test.Spec.Parameters = []coderv1alpha1.TemplateTestParameter{{Name: "fake", Value: "1"}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) {
				tested("# two", "smoke")(tmpl)
				tmpl.Spec.Tests[0].Checks.Commands = []coderv1alpha1.TemplateTestCommand{{Name: "tools", Command: []string{"true"}}}
			}))
			f.runTests(nil)
			name := f.get(starter).Status.Candidate.Tests[0].TestName
			test := f.tests.objects[name]
			test.Status = succeeded
			forge(test)
			f.runTests(nil)
			f.mustState(what, `False TestsFailed reconciling=false stalled=true active="# one" smoke=Failed`)
			delete(f.tests.objects, name)
			f.runTests(map[string]string{"smoke": ""})
			f.mustState("without it", `True Active reconciling=false stalled=false active="# two"`)
		})
	}
}

// TestNamesOfTests: the name depends on the template, the version and all of the test, and not on anything else.
func TestNamesOfTests(t *testing.T) {
	f := newFixture(t)
	f.must(f.update(starter, tested("# two", "smoke")))
	item, err := f.watcher.Template(f.ctx, f.starter)
	f.must(err)
	in, err := registry.ReadIntent[intent](f.recordOf(item))
	f.must(err)
	w := &settling{template: item, intent: in}
	version := uuid.New()
	test := aggregationv1alpha1.TemplateTest{Name: strings.Repeat("a", 63)}
	names := map[string]bool{}
	add := func(w *settling, test aggregationv1alpha1.TemplateTest, version uuid.UUID) string {
		name := w.testName(test.Name, testSpec(test, "prod", starter, version))
		names[name] = true
		return name
	}
	first := add(w, test, version)
	if first != add(w, test, version) || len(first) > 63 {
		t.Errorf("the name is %q, and then another one", first)
	}
	add(w, test, uuid.New())
	changed := test
	changed.Preset = "small"
	add(w, changed, version)
	changed = test
	changed.Name = strings.Repeat("a", 62)
	add(w, changed, version)
	other := *w
	other.template.ID = uuid.New()
	add(&other, test, version)
	other = *w
	other.intent.Salt = "another"
	add(&other, test, version)
	if len(names) != 6 {
		t.Errorf("the names are %v", slices.Sorted(maps.Keys(names)))
	}
}

func TestNewerDecisions(t *testing.T) {
	passes := map[string]string{"smoke": ""}
	for what, c := range map[string]struct {
		meanwhile func(f *fixture)
		want      string
	}{
		"another version is made active in Coder": {func(f *fixture) {
			other := f.coder.AddTemplateVersion(f.starter, "", map[string]string{mainTF: "# other"})
			f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, other))
		}, `True AwaitingPromotion reconciling=false stalled=false active="# other"`},
		"Manual": {func(f *fixture) { f.must(f.update(starter, manually("# two"))) }, `True AwaitingPromotion reconciling=false stalled=false active="# one"`},
		"Automatic": {func(f *fixture) {
			f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Activation = "" }))
		}, `True AwaitingPromotion reconciling=false stalled=false active="# one"`},
		"new files": {func(f *fixture) { f.must(f.update(starter, tested("# three", "smoke"))) }, `True Active reconciling=false stalled=false active="# three"`},
		"another test": {func(f *fixture) { f.must(f.update(starter, tested("# two", "other"))) },
			`False TestsRunning reconciling=true stalled=false active="# one" other=Pending`},
		"promoted by hand": {func(f *fixture) { f.must(f.promote(aggregationv1alpha1.CoderTemplatePromotion{})) },
			`True Active reconciling=false stalled=false active="# two"`},
		"archived": {func(f *fixture) {
			f.must(f.watcher.ArchiveVersion(f.ctx, uuid.MustParse(f.get(starter).Status.Candidate.ID)))
			f.clock.Step(restAge)
		}, `True AwaitingPromotion reconciling=false stalled=false active="# one"`},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.must(f.update(starter, tested("# two", "smoke")))
			f.runTests(nil)
			c.meanwhile(f)
			f.pass()
			f.runTests(passes)
			f.mustState(what, c.want)
		})
	}
}

// TestCandidatesFromBeforeAfterTest: only a version that would have become active by itself is tested.
func TestCandidatesFromBeforeAfterTest(t *testing.T) {
	for before, want := range map[string]string{
		"":       `True Active reconciling=false stalled=false active="# two"`,
		"Manual": `True AwaitingPromotion reconciling=false stalled=false active="# one"`,
	} {
		f := newFixture(t, coderdtest.WithManualBuilds())
		f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) { files("# two")(tmpl); tmpl.Spec.Activation = before }))
		f.must(f.update(starter, tested("# two", "smoke")))
		f.runTests(map[string]string{"smoke": ""})
		f.mustState("before: "+before, want)
	}
}

func TestTestsThatCannotBeCreated(t *testing.T) {
	f := newFixture(t)
	f.must(f.update(starter, tested("# two", "smoke")))
	f.tests.refused = apierrors.NewForbidden(testResource, "x", fmt.Errorf("exceeded quota: tests"))
	f.runTests(nil)
	f.mustState("with a full quota", `False TestsRunning reconciling=true stalled=false active="# one" smoke=Pending`)
	if message := fmt.Sprint(f.get(starter).Status.Conditions); !strings.Contains(message, "exceeded quota: tests") {
		t.Errorf("the conditions are %s", message)
	}
	f.tests.refused = nil
	f.runTests(map[string]string{"smoke": ""})
	f.mustState("with room", `True Active reconciling=false stalled=false active="# two"`)
}

func TestSpecTestsAreValidated(t *testing.T) {
	f := newFixture(t)
	change := func(names ...string) error { return f.update(starter, tested("# two", names...)) }
	mustBeInvalid(t, change(), "spec.tests", "needs at least one test")
	mustBeInvalid(t, change("Smoke"), "spec.tests[0].name", "lower case")
	mustBeInvalid(t, change("a", "a"), "spec.tests[1].name", "Duplicate")
	mustBeInvalid(t, change(strings.Split("a b c d e f g h i j k", " ")...), "spec.tests", "at most 10")
	mustBeInvalid(t, f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tested("# two", "a")(tmpl)
		tmpl.Spec.Tests[0].Preset = strings.Repeat("x", maxTestBytes)
	}), "spec.tests", "may not be more than")
	kind := coderv1alpha1.GroupVersion.WithKind("CoderTemplateTest").GroupKind()
	f.tests.refused = apierrors.NewInvalid(kind, "x", field.ErrorList{field.Invalid(field.NewPath("spec", "timeoutSeconds"), 1, "must be 30 or more")})
	mustBeInvalid(t, change("a"), "spec.tests[0].timeoutSeconds", "must be 30 or more")
	was := f.get(starter)
	wanted := was.DeepCopy()
	tested("# two", "a")(wanted)
	mustBeInvalid(t, f.kind.CheckUpdate(f.ctx, wanted, was), "spec.tests[0].timeoutSeconds", "must be 30 or more")
	f.tests.refused = apierrors.NewForbidden(testResource, "x", fmt.Errorf("exceeded quota"))
	f.must(change("a"))
	f.restart()
	f.kind.tests = nil
	mustBeInvalid(t, change("b"), "spec.tests", "has no CoderControlPlane")
}

// rights is an authorizer that allows some verbs.
type rights []string

func (r rights) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	path := asked.GetResource()
	if asked.GetSubresource() != "" {
		path += "/" + asked.GetSubresource()
	}
	if asked.GetVerb() == "create" && asked.GetNamespace() == namespace && slices.Contains(r, path) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionDeny, "", nil
}

// TestAfterTestIsAGate checks that a user who may not promote cannot avoid the tests.
func TestAfterTestIsAGate(t *testing.T) {
	f := newFixture(t)
	f.kind.authorizer = rights{}
	if err := f.update(starter, tested("# two", "smoke")); !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "codertemplatetests") {
		t.Errorf("without the permission to create tests: %v", err)
	}
	f.kind.authorizer = rights{"codertemplatetests"}
	f.must(f.update(starter, tested("# two", "smoke")))
	f.runTests(nil)
	refused := func(when string) {
		t.Helper()
		for what, change := range map[string]func(*aggregationv1alpha1.CoderTemplate){
			"other tests":           tested("# two", "easy"),
			"more tests":            tested("# two", "smoke", "easy"),
			"other tests and files": tested("# three", "easy"),
			"a changed test": func(tmpl *aggregationv1alpha1.CoderTemplate) {
				tested("# two", "smoke")(tmpl)
				tmpl.Spec.Tests[0].TimeoutSeconds = 30
			},
			"Manual":        manually("# two"),
			"no activation": func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Activation = "" },
			"a version": func(tmpl *aggregationv1alpha1.CoderTemplate) {
				tmpl.Spec.VersionID = uuid.NewString()
			},
		} {
			if err := f.update(starter, change); !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "codertemplates/promote") {
				t.Errorf("%s, %s: %v, want 403", when, what, err)
			}
		}
	}
	refused("with a candidate")
	f.runTests(map[string]string{"smoke": ""})
	f.mustState("tested", `True Active reconciling=false stalled=false active="# two"`)
	// Otherwise easy tests could be set before the files.
	refused("without a candidate")
	// Files are all that the user needs to push.
	f.kind.authorizer = rights{}
	f.must(f.update(starter, files("# three")))
	f.runTests(map[string]string{"smoke": ""})
	f.mustState("files alone", `True Active reconciling=false stalled=false active="# three"`)
	f.kind.authorizer = rights{"codertemplatetests", "codertemplates/promote"}
	f.must(f.update(starter, tested("# three", "easy")))
	f.clock.Step(time.Minute)
}
