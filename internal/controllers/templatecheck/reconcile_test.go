package templatecheck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
)

func TestSuccess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Reconcile()
	f.MustBe("while it runs", controllertest.KstatusInProgress)
	test := f.finishes()
	s := test.Status
	if s.Phase != coderv1alpha1.TemplateTestSucceeded || s.OwnerName != tester || s.VersionID == "" || s.VersionName == "" || s.ReadyAfterSeconds == nil {
		t.Errorf("the status is %+v", s)
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonTestSucceeded)
	f.MustHave(coderv1alpha1.ConditionFinished, metav1.ConditionTrue, coderv1alpha1.ReasonTestSucceeded)
	f.MustHave(coderv1alpha1.ConditionWorkspaceDeleted, metav1.ConditionTrue, coderv1alpha1.ReasonWorkspaceGone)
	f.MustBe("after success", controllertest.KstatusCurrent)
	if s.WorkspaceName != workspaceName(testUID) || len(s.WorkspaceName) > 32 {
		t.Errorf("the workspace is called %q", s.WorkspaceName)
	}
	if transitions := f.coder.Transitions(uuid.MustParse(s.WorkspaceID)); fmt.Sprint(transitions) != "[start delete]" {
		t.Errorf("builds: %q", transitions)
	}
	tokens, err := f.direct.TokensOf(t.Context(), tester)
	f.Must(err)
	if len(tokens) != 1 {
		t.Errorf("besides the one from the beginning, %d tokens of the owner are left", len(tokens)-1)
	}
	f.TakeWrites()
	f.coder.ResetRequests()
	if result := f.Reconcile(); result.RequeueAfter != 0 || len(f.TakeWrites()) != 0 || f.coder.Asked() != 0 {
		t.Errorf("a finished test is not at rest: %+v", result)
	}
	f.Delete()
	f.Reconcile()
	if !f.Gone() {
		t.Error("it is not deleted")
	}
}

// TestPrebuiltWorkspace checks that a workspace that Coder had built in advance is used and deleted, also if the answer to its request
// is lost.
func TestPrebuiltWorkspace(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		f := newFixture(t)
		f.coder.AddUser("prebuilds")
		f.coder.AddWorkspace("prebuilds", f.template, "one")
		f.Forward(time.Hour)
		if lost {
			f.coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/users/tester/workspaces", Status: 502, Processed: true, Times: 1})
		}
		test := f.finishes()
		if s := test.Status; s.Phase != coderv1alpha1.TemplateTestSucceeded || *s.ReadyAfterSeconds > 60 || len(f.workspaces()) != 0 {
			t.Errorf("lost %t: %d workspaces, %+v", lost, len(f.workspaces()), s)
		}
	}
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.TTLSecondsAfterFinished = ptr.To[int32](60) })
	f.finishes()
	if result := f.Reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("the next pass is after %s", result.RequeueAfter)
	}
	f.Forward(time.Minute)
	f.runs(2)
	if !f.Gone() {
		t.Error("it is not deleted after its time to live")
	}
}

// TestFailures checks which reason and which check a failure has, and that the workspace is deleted nevertheless.
func TestFailures(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change        func(*coderv1alpha1.CoderTemplateTest)
		prepare       func(*fixture)
		reason, check string
		says          string
	}{
		"a build that fails": {
			prepare: func(f *fixture) {
				f.coder.SetBuildResult(workspaceName(testUID), coderdtest.BuildResult{Error: "exit status 1"})
				f.World = func() bool {
					// Only the deletion succeeds.
					f.coder.SetBuildResult(workspaceName(testUID), coderdtest.BuildResult{})
					return f.build()
				}
			},
			reason: coderv1alpha1.ReasonBuildFailed, check: checkBuild, says: "exit status 1",
		},
		"no agent": {
			prepare: func(f *fixture) { f.agents = nil }, reason: coderv1alpha1.ReasonNoAgents, check: checkAgents, says: "coder_agent",
		},
		"a startup script that fails": {
			prepare: func(f *fixture) {
				f.agents = []coderdtest.Agent{{Name: "main", Status: "connected", LifecycleState: "start_error"}}
				f.World = func() bool {
					changed := f.build()
					if changed && len(f.workspaces()) > 0 {
						f.coder.WriteAgentLog(f.workspace().ID, "main", "Startup Script", "apt-get install nothing", "E: Unable to locate package nothing")
					}
					return changed
				}
			},
			reason: coderv1alpha1.ReasonAgentStartError, check: checkAgents, says: "E: Unable to locate package nothing",
		},
		"an agent that does not connect": {
			change: func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.TimeoutSeconds = 30 },
			prepare: func(f *fixture) {
				f.agents = []coderdtest.Agent{{Name: "main", Status: "timeout", LifecycleState: "created"}}
			},
			reason: coderv1alpha1.ReasonTimedOut, check: checkAgents, says: `agent "main" is not connected (timeout)`,
		},
		"scripts that take too long": {
			change: func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.Checks.ReadyWithinSeconds = ptr.To[int32](10) },
			prepare: func(f *fixture) {
				f.agents = []coderdtest.Agent{{Name: "main", Status: "connected", LifecycleState: "starting"}}
			},
			reason: coderv1alpha1.ReasonTooSlow, check: checkReadyWithin, says: "within 10 seconds",
		},
		"agents that were ready too late": {
			change: func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.Checks.ReadyWithinSeconds = ptr.To[int32](10) },
			prepare: func(f *fixture) {
				f.agents[0].ReadyAt = ptr.To(f.Clock.Now().Add(11 * time.Second))
			},
			reason: coderv1alpha1.ReasonTooSlow, check: checkReadyWithin, says: "after 11 seconds",
		},
		"an app that is unhealthy": {
			change: func(test *coderv1alpha1.CoderTemplateTest) {
				test.Spec.Checks.Apps, test.Spec.TimeoutSeconds = true, 30
			},
			prepare: func(f *fixture) {
				f.agents[0].Apps = []coderdtest.App{{Slug: "code", Health: "unhealthy"}}
			},
			reason: coderv1alpha1.ReasonTimedOut, check: checkApps, says: `app "code" of agent "main" is unhealthy`,
		},
		"a parameter without a value": {
			prepare: func(f *fixture) {
				f.coder.DeleteTemplate(f.template)
				f.coder.AddTemplate("coder", "hello", map[string]string{"main.tf": `data "coder_parameter" "size" {
  name = "size"
  type = "string"
}`})
			},
			reason: coderv1alpha1.ReasonWorkspaceRefused, says: "size",
		},
		"a preset that the version does not have": {
			change: func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.Preset = "large" },
			reason: coderv1alpha1.ReasonWorkspaceRefused, says: `no preset "large"`,
		},
		"a workspace that somebody stops": {
			prepare: func(f *fixture) {
				f.World = func() bool {
					changed := f.build()
					if all := f.workspaces(); len(all) == 1 && all[0].LatestBuild.Number == 1 {
						f.coder.BuildWorkspace(all[0].ID, "stop")
					}
					return changed
				}
			},
			reason: coderv1alpha1.ReasonWorkspaceChangedExternally, says: "build 2",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if c.change == nil {
				c.change = func(*coderv1alpha1.CoderTemplateTest) {}
			}
			f := newFixture(t, c.change)
			if c.prepare != nil {
				c.prepare(f)
			}
			if message := f.fails(c.reason, c.check); !strings.Contains(message, c.says) {
				t.Errorf("the message is %q, and does not say %q", message, c.says)
			}
			if all := f.workspaces(); len(all) != 0 {
				t.Errorf("%d workspaces are left", len(all))
			}
		})
	}
}

// TestDeletedBySomebody checks that a workspace that disappears during the test makes the test fail.
func TestDeletedBySomebody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agents = []coderdtest.Agent{{Name: "main", Status: "connecting", LifecycleState: "created"}}
	f.runs(2)
	f.coder.BuildWorkspace(f.workspace().ID, "delete")
	if message := f.fails(coderv1alpha1.ReasonWorkspaceChangedExternally, ""); !strings.Contains(message, "deleted") {
		t.Errorf("the message is %q", message)
	}
}

// TestWaits checks what a test waits for before it starts, and that it fails with the same reason if that takes too long.
func TestWaits(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change  func(*coderv1alpha1.CoderTemplateTest)
		prepare func(*fixture)
		reason  string
		mend    func(*fixture)
	}{
		"no configuration": {
			prepare: func(f *fixture) {
				cp := &coderv1alpha1.CoderControlPlane{}
				f.Get("coder", cp)
				cp.Spec.TemplateTests = nil
				f.Update(cp)
			},
			reason: coderv1alpha1.ReasonTemplateTestsNotConfigured,
			mend: func(f *fixture) {
				cp := &coderv1alpha1.CoderControlPlane{}
				f.Get("coder", cp)
				cp.Spec.TemplateTests = newControlPlane().Spec.TemplateTests
				f.Update(cp)
			},
		},
		"no template": {
			change: func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.Template = "coder.later" },
			reason: coderv1alpha1.ReasonTemplateNotFound,
			mend:   func(f *fixture) { f.coder.AddTemplate("coder", "later", nil) },
		},
		"no version": {
			change: func(test *coderv1alpha1.CoderTemplateTest) {
				test.Spec.Version = coderv1alpha1.TemplateTestVersion{ID: "0b5e1c8a-7f3e-4b0e-9c55-3f2a8a6d1e12"}
			},
			reason: coderv1alpha1.ReasonTemplateNotFound,
		},
		"no user": {
			prepare: func(f *fixture) {
				f.editControlPlane(func(s *coderv1alpha1.TemplateTestsSpec) { s.OwnerUsername = "robot" })
			},
			reason: coderv1alpha1.ReasonOwnerNotEligible,
			mend:   func(f *fixture) { f.coder.AddUser("robot") },
		},
		"a suspended user": {
			prepare: func(f *fixture) { f.coder.EditUser(tester, "", true) },
			reason:  coderv1alpha1.ReasonOwnerNotEligible,
			mend:    func(f *fixture) { f.coder.EditUser(tester, "", false) },
		},
		"a user with a role": {
			prepare: func(f *fixture) { f.coder.EditUser(tester, "", false, "auditor") },
			reason:  coderv1alpha1.ReasonOwnerNotEligible,
			mend:    func(f *fixture) { f.coder.EditUser(tester, "", false) },
		},
		"a template that the user may not use": {
			prepare: func(f *fixture) { f.coder.RestrictTemplate(f.template, true) },
			reason:  coderv1alpha1.ReasonOwnerNotEligible,
			mend:    func(f *fixture) { f.coder.RestrictTemplate(f.template, false) },
		},
		"a person with the name of the user to create": {
			prepare: func(f *fixture) {
				f.editControlPlane(func(s *coderv1alpha1.TemplateTestsSpec) { s.CreateOwner = true })
			},
			reason: coderv1alpha1.ReasonOwnerNotEligible,
			mend: func(f *fixture) {
				f.editControlPlane(func(s *coderv1alpha1.TemplateTestsSpec) { s.CreateOwner = false })
			},
		},
		"an organization to which the user does not belong": {
			prepare: func(f *fixture) {
				f.coder.AddOrganization("second")
				f.coder.DeleteTemplate(f.template)
				f.coder.AddTemplate("second", "hello", nil)
				f.editControlPlane(func(s *coderv1alpha1.TemplateTestsSpec) { s.OwnerUsername, s.CreateOwner = "robot", true })
			},
			change: func(test *coderv1alpha1.CoderTemplateTest) { test.Spec.Template = "second.hello" },
			reason: coderv1alpha1.ReasonOwnerNotEligible,
			mend:   func(f *fixture) { f.coder.SetMember("robot", "second") },
		},
		"a user with a role in the organization": {
			prepare: func(f *fixture) { f.coder.SetMember(tester, "coder", "organization-admin") },
			reason:  coderv1alpha1.ReasonOwnerNotEligible,
			mend:    func(f *fixture) { f.coder.SetMember(tester, "coder") },
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			begin := func() *fixture {
				if c.change == nil {
					c.change = func(*coderv1alpha1.CoderTemplateTest) {}
				}
				f := newFixture(t, c.change)
				if c.prepare != nil {
					c.prepare(f)
				}
				f.runs(2)
				f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, c.reason)
				f.MustBe("while it waits", controllertest.KstatusInProgress)
				if phase := f.Object().Status.Phase; phase != coderv1alpha1.TemplateTestPending || len(f.workspaces()) != 0 {
					t.Errorf("phase %s with %d workspaces", phase, len(f.workspaces()))
				}
				return f
			}
			f := begin()
			f.Forward(15 * time.Minute)
			f.fails(c.reason, "")
			if len(f.workspaces()) != 0 {
				t.Error("there is a workspace")
			}
			if c.mend == nil {
				return
			}
			f = begin()
			c.mend(f)
			if test := f.finishes(); test.Status.Phase != coderv1alpha1.TemplateTestSucceeded {
				t.Errorf("%+v", test.Status)
			}
		})
	}
}

// TestVersions checks that a test uses the version that its spec selects, and waits for its build.
func TestVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(test *coderv1alpha1.CoderTemplateTest) {
		test.Spec.Version = coderv1alpha1.TemplateTestVersion{Name: "next"}
	})
	archive := f.coder.AddFile(map[string]string{"main.tf": ""})
	org, err := f.direct.OrganizationByName(t.Context(), "coder")
	f.Must(err)
	version, err := f.direct.CreateTemplateVersion(t.Context(), org.ID, newVersion(f.template, archive, "next"))
	f.Must(err)
	f.runs(1)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonTemplateVersionImporting)
	if test := f.finishes(); test.Status.VersionID != version.ID.String() || test.Status.VersionName != "next" {
		t.Errorf("tested was %+v", test.Status)
	}
}

func TestOwnerIsCreated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.editControlPlane(func(s *coderv1alpha1.TemplateTestsSpec) { s.OwnerUsername, s.CreateOwner = "robot", true })
	if test := f.finishes(); test.Status.Phase != coderv1alpha1.TemplateTestSucceeded || test.Status.OwnerName != "robot" {
		t.Errorf("%+v", test.Status)
	}
	if f.coder.HasRole("robot", "owner") {
		t.Error("the user is an Owner")
	}
}

// TestNameConflict checks that a workspace of somebody else is neither used nor deleted.
func TestNameConflict(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	foreign := f.coder.AddWorkspace(tester, f.template, workspaceName(testUID))
	f.fails(coderv1alpha1.ReasonWorkspaceNameConflict, "")
	if status := f.coder.WorkspaceStatus(foreign); status != "running" {
		t.Errorf("the other workspace is %s", status)
	}
	f.Delete()
	f.Forward(2 * time.Minute)
	f.runs(1)
	if transitions := f.coder.Transitions(foreign); !f.Gone() || len(transitions) != 1 {
		t.Errorf("gone: %t, builds of the other workspace: %q", f.Gone(), transitions)
	}
}

// TestQuota checks that only spec.templateTests.maxConcurrent tests have a workspace, and that the oldest is next.
func TestQuota(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 3 {
		f.Create(newTest(func(test *coderv1alpha1.CoderTemplateTest) {
			test.Name, test.UID = fmt.Sprintf("more-%d", i), types.UID(fmt.Sprintf("more-%d", i))
			test.CreationTimestamp = metav1.NewTime(f.Clock.Now().Add(time.Duration(i+1) * time.Second))
		}))
	}
	all := []string{name, "more-0", "more-1", "more-2"}
	for range 2 {
		for _, each := range all {
			_, err := f.Try(each)
			f.Must(err)
		}
	}
	if n := len(f.workspaces()); n != 2 {
		t.Fatalf("%d workspaces, and the most is 2", n)
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonTooManyTests, "more-1")
	// One is deleted, and the older of those that wait is next, also if the other one is asked first.
	f.Delete()
	f.runs(4)
	for _, each := range []string{"more-2", "more-1"} {
		_, err := f.Try(each)
		f.Must(err)
	}
	if f.Object("more-1").Status.StartTime == nil || f.Object("more-2").Status.StartTime != nil {
		t.Error("the younger one was first")
	}
}

// TestDeletionTimeLimit checks that a Coder that is away delays the deletion of a test by a minute, and that an Event names what
// may stay.
func TestDeletionTimeLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Reconcile()
	f.away = true
	f.Delete()
	f.runs(1)
	f.MustHave(coderv1alpha1.ConditionWorkspaceDeleted, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	f.Forward(time.Minute)
	f.runs(1)
	if !f.Gone() || f.Events.Count("Warning "+coderv1alpha1.ReasonWorkspaceLeft+": the workspace \""+workspaceName(testUID)+`" of user "tester"`) != 1 {
		t.Errorf("gone: %t, Events %q", f.Gone(), f.Events.All())
	}
}

// TestFailedDeletion checks that a deletion that fails is repeated after a minute, and not for ever.
func TestFailedDeletion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.runs(1)
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "the cloud is away"})
	for range 3 {
		f.runs(1)
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonTestSucceeded)
	deleted := f.MustHave(coderv1alpha1.ConditionWorkspaceDeleted, metav1.ConditionFalse, coderv1alpha1.ReasonDeleteBuildFailed)
	if !strings.Contains(deleted.Message, "the cloud is away") {
		t.Errorf("the message is %q", deleted.Message)
	}
	builds := len(f.coder.Transitions(f.workspace().ID))
	f.runs(3)
	if now := len(f.coder.Transitions(f.workspace().ID)); now != builds {
		t.Errorf("%d builds, and before %d", now, builds)
	}
	for range 2 * maxDeletions {
		f.Forward(time.Minute)
		f.runs(2)
	}
	f.MustHave(coderv1alpha1.ConditionWorkspaceDeleted, metav1.ConditionFalse, coderv1alpha1.ReasonWorkspaceLeft)
	if builds := len(f.coder.Transitions(f.workspace().ID)); builds != maxDeletions+1 || f.Events.Count("Warning "+coderv1alpha1.ReasonWorkspaceLeft) != 1 {
		t.Errorf("%d builds, Events %q", builds, f.Events.All())
	}
	f.coder.BuildWorkspace(f.workspace().ID, "delete")
	f.runs(1)
	f.MustHave(coderv1alpha1.ConditionWorkspaceDeleted, metav1.ConditionTrue, coderv1alpha1.ReasonWorkspaceGone)
}

func newVersion(template, file uuid.UUID, name string) coderd.NewTemplateVersion {
	return coderd.NewTemplateVersion{TemplateID: &template, FileID: file, Name: name}
}
