package template

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// scenario is a request of a client, which it repeats until it succeeds.
type scenario struct {
	prepare func(f *fixture)
	request func(f *fixture) error
	// done reports whether the request is no longer needed, after one whose result is unknown.
	done  func(f *fixture) bool
	steps int
	// settled places the crash in the passes of the mirror.
	settled bool
}

func variableFrom(secret string) []aggregationv1alpha1.TemplateVariable {
	return []aggregationv1alpha1.TemplateVariable{
		{Name: "region", Value: "north"},
		{Name: "password", ValueFrom: &aggregationv1alpha1.TemplateVariableSource{
			SecretKeyRef: &aggregationv1alpha1.SecretKeySelector{Name: secret, Key: "password"},
		}},
	}
}

func scenarios() map[string]scenario {
	create := func(f *fixture) error {
		return f.create("coder.docker", aggregationv1alpha1.CoderTemplateSpec{
			DisplayName: "Docker", Files: map[string]string{mainTF: "# first"}, Variables: variableFrom("db"),
		})
	}
	change := func(f *fixture) error {
		return f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
			tmpl.Spec.DisplayName, tmpl.Spec.DefaultTTLMillis = "Changed", ptr.To[int64](60_000)
			tmpl.Spec.Variables = variableFrom("db")
			files("# two")(tmpl)
		})
	}
	pending := func(f *fixture) {
		f.must(f.update("coder.starter", files("# first change")))
		f.pass()
	}
	return map[string]scenario{
		"create":                        {request: create, steps: 9, done: func(f *fixture) bool { return f.log["coder.docker"] != nil }},
		"change":                        {request: change, steps: 8},
		"change while another is built": {prepare: pending, request: change, steps: 8},
		"promote":                       {prepare: pending, request: change, steps: 3, settled: true},
		"roll back": {
			prepare: func(f *fixture) {
				f.must(f.update("coder.starter", files("# two")))
				f.build()
				f.must(f.update("coder.starter", files("# three")))
			},
			request: func(f *fixture) error {
				versions, err := f.watcher.TemplateVersions(f.ctx, f.starter)
				f.must(err)
				return f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.VersionID = versions[0].ID.String() })
			},
			steps: 6,
		},
		"candidate": {
			prepare: pending,
			request: func(f *fixture) error { return f.update("coder.starter", manually("# two")) },
			steps:   6,
		},
		"promote a candidate": {
			prepare: func(f *fixture) {
				f.must(f.update("coder.starter", manually("# two")))
				f.build()
			},
			request: func(f *fixture) error {
				versions, err := f.watcher.TemplateVersions(f.ctx, f.starter)
				f.must(err)
				return f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.VersionID = versions[1].ID.String() })
			},
			steps: 6,
		},
		"test and promote": {
			prepare: func(f *fixture) {
				f.tests.results = map[string]string{"smoke": "", "other": ""}
				f.must(f.update("coder.starter", tested("# two", "smoke", "other")))
				f.pass()
			},
			request: func(*fixture) error { return nil },
			steps:   6, settled: true,
		},
		"a failed test": {
			prepare: func(f *fixture) {
				f.tests.results = map[string]string{"smoke": "", "other": "exit code 3"}
				f.must(f.update("coder.starter", tested("# two", "smoke", "other")))
				f.pass()
			},
			request: func(*fixture) error { return nil },
			steps:   4, settled: true,
		},
		"metadata": {
			request: func(f *fixture) error {
				return f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Annotations = map[string]string{"note": "new"} })
			},
			steps: 1,
		},
		"delete": {
			request: func(f *fixture) error {
				if f.log["coder.starter"] == nil {
					return nil
				}
				return f.write(f.log["coder.starter"], nil)
			},
			steps: 1,
		},
		"rotate": {
			prepare: func(f *fixture) {
				f.must(change(f))
				f.build()
				f.secrets["db/password"] = "two"
			},
			request: func(*fixture) error { return nil },
			steps:   4, settled: true,
		},
	}
}

// TestCrashEverywhere kills the process at each single request to Coder and each write of a record,
// whether it arrived or not. A new process continues while the client repeats the request. The
// result equals that of an undisturbed run: nothing is built twice.
func TestCrashEverywhere(t *testing.T) {
	for what, s := range scenarios() {
		for _, lost := range []bool{false, true} {
			name := what + ", not arrived"
			if lost {
				name = what + ", arrived"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				undisturbed, _ := s.run(t, 0, lost)
				kubetest.EachStep(t, s.steps, func(at int) bool {
					end, struck := s.run(t, at, lost)
					if end != undisturbed {
						t.Fatalf("after a crash at step %d:\n%s\nundisturbed:\n%s", at, end, undisturbed)
					}
					return struck
				})
			})
		}
	}
}

func (s scenario) run(t *testing.T, at int, lost bool) (end string, struck bool) {
	t.Helper()
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.secrets["db/password"] = "one"
	if s.prepare != nil {
		s.prepare(f)
	}
	if !s.settled {
		f.fault.Set(at, lost)
	}
	err := s.request(f)
	if s.settled {
		f.must(err)
		f.coder.FinishBuilds()
		f.clock.Step(2 * rotationInterval)
		f.fault.Set(at, lost)
		f.dyingPass()
	}
	struck = f.fault.Struck()
	f.restart()
	f.pass()
	if err != nil && !struck {
		t.Fatal(err)
	}
	if err != nil && (s.done == nil || !s.done(f)) {
		if err := s.request(f); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("asked again: %v", err)
		}
	}
	f.build()
	f.build()
	return f.picture(), struck
}

// dyingPass is a pass in which the process may die.
func (f *fixture) dyingPass() {
	items, err := f.watcher.Templates(f.ctx)
	f.must(err)
	for range 5 {
		f.fault.Without(f.tests.run)
		for _, item := range items {
			record := f.recordOf(item)
			if _, err := f.kind.Object(f.ctx, f.connection(), item, record, f.byID(item.ID)); err == nil {
				_, _ = f.kind.Settle(f.ctx, f.connection(), item, record)
			}
		}
	}
}

// TestWhoeverDiesMidwayIsFinishedWithoutTheClient covers a client that does not repeat its request:
// an intent in the record is completed, and an unrecorded one has no effect.
func TestWhoeverDiesMidwayIsFinishedWithoutTheClient(t *testing.T) {
	for _, lost := range []bool{false, true} {
		kubetest.EachStep(t, 6, func(at int) bool {
			f := newFixture(t, coderdtest.WithManualBuilds())
			f.fault.Set(at, lost)
			_ = f.update("coder.starter", files("# two"))
			struck := f.fault.Struck()
			f.restart()
			f.build()
			f.build()
			tmpl := f.get("coder.starter")
			if condition(tmpl, "Ready") != "True Active" || condition(tmpl, "Synced") != "True Synced" {
				t.Errorf("step %d, arrived %t: %s", at, lost, f.picture())
			}
			asked := len(f.records.List(controlPlane)) > 0
			if got := tmpl.Spec.Files[mainTF]; asked != (got == "# two") {
				t.Errorf("step %d, arrived %t: asked for %t, and the source is %q", at, lost, asked, got)
			}
			return struck
		})
	}
}

// TestACreationThatWasNotAnsweredIsAdopted covers a client that repeats a creation before the
// mirror has seen the template.
func TestACreationThatWasNotAnsweredIsAdopted(t *testing.T) {
	f := newFixture(t)
	f.coder.Fail(coderdtest.Fault{
		Method: "POST", PathPrefix: "/api/v2/organizations/" + f.coder.OrganizationID("coder").String() + "/templates", Processed: true, Status: 502,
	})
	create := func() error {
		return f.create("coder.docker", aggregationv1alpha1.CoderTemplateSpec{Files: map[string]string{mainTF: "# first"}})
	}
	if err := create(); !apierrors.IsTimeout(err) {
		t.Fatalf("without an answer: %v", err)
	}
	if err := create(); err != nil {
		t.Fatal(err)
	}
	f.mustBe("coder.docker", "True Active", "# first")
	if n := f.coder.VersionCount(); n != 2 {
		t.Errorf("%d versions", n)
	}
	if records := f.records.All(); len(records) != 1 || records[0].Pending() {
		t.Errorf("%s", f.picture())
	}
}

// TestALateCreationIsAdopted covers a creation that Coder completes between the check of the next
// attempt and its request.
func TestALateCreationIsAdopted(t *testing.T) {
	f := newFixture(t)
	path := "/api/v2/organizations/" + f.coder.OrganizationID("coder").String() + "/templates"
	f.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: path, Processed: true, Status: http.StatusBadGateway, Times: 1})
	create := func() error {
		return f.create("coder.docker", aggregationv1alpha1.CoderTemplateSpec{Files: map[string]string{mainTF: "# first"}})
	}
	if err := create(); !apierrors.IsTimeout(err) {
		t.Fatalf("without an answer: %v", err)
	}
	remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: path, Status: http.StatusNotFound})
	if err := create(); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("the next attempt: %v", err)
	}
	remove()
	f.sync()
	f.mustBe("coder.docker", "True Active", "# first")
	if note := f.get("coder.docker").Annotations["note"]; note != "kept" {
		t.Errorf("its annotation is %q: %s", note, f.picture())
	}
}

// TestWhatIsActiveIsNotBuiltAgain reverts a change of a variable.
func TestWhatIsActiveIsNotBuiltAgain(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	region := func(value string) {
		t.Helper()
		f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
			tmpl.Spec.Variables = []aggregationv1alpha1.TemplateVariable{{Name: "region", Value: value}}
		}))
	}
	region("north")
	f.build()
	active, count := f.get("coder.starter").Status.ActiveVersionID, f.coder.VersionCount()
	region("south")
	region("north")
	if got := f.get("coder.starter"); condition(got, "Ready") != "True Active" || f.coder.VersionCount() != count+1 {
		t.Errorf("%s", f.picture())
	}
	f.build()
	if got := f.get("coder.starter").Status.ActiveVersionID; got != active {
		t.Errorf("active is %s, want %s", got, active)
	}
}
