package template

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

func TestLifecycle(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.must(f.create("coder.docker", aggregationv1alpha1.CoderTemplateSpec{
		DisplayName: "Docker", Files: map[string]string{mainTF: "# first"}, DefaultTTLMillis: ptr.To[int64](7_200_000),
	}))
	f.mustBe("coder.docker", "False BuildPending", "# first")
	if got := condition(f.get("coder.docker"), "Reconciling"); got != "True BuildPending" {
		t.Errorf("Reconciling is %q", got)
	}
	f.build()
	f.mustBe("coder.docker", "True Active", "# first")
	made := f.get("coder.docker")
	if made.Spec.DisplayName != "Docker" || *made.Spec.DefaultTTLMillis != 7_200_000 || made.Annotations["note"] != "kept" ||
		made.Generation != 1 || made.Status.ObservedGeneration != 1 || len(made.ManagedFields) != 1 {
		t.Errorf("made: %+v", made)
	}

	f.coder.AddWorkspace("ada", f.starter, "dev")
	if err := f.write(f.get("coder.starter"), nil); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "delete its workspaces first") {
		t.Errorf("deleting a template that is used: %v", err)
	}
	f.must(f.write(f.get("coder.docker"), nil))
	f.sync()
	if _, exists := f.log["coder.docker"]; exists || len(f.records.List(controlPlane)) != 0 {
		t.Errorf("after the deletion: %s", f.picture())
	}
}

func TestNewFilesBecomeActiveWhenBuilt(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	before := f.get("coder.starter")
	f.must(f.update("coder.starter", files("# two")))
	changed := f.get("coder.starter")
	f.mustBe("coder.starter", "False BuildPending", "# two")
	if changed.Spec.VersionID != before.Spec.VersionID || changed.Generation != before.Generation+1 || changed.Status.ObservedGeneration != changed.Generation {
		t.Errorf("the request did not return at once with what was asked: %+v", changed)
	}
	f.build()
	f.mustBe("coder.starter", "True Active", "# two")
	after := f.get("coder.starter")
	if after.Spec.VersionID == before.Spec.VersionID || after.Status.ActiveVersionID != after.Status.LatestVersionID {
		t.Errorf("not promoted: %+v", after.Status)
	}
	if after.Generation <= changed.Generation || after.Status.ObservedGeneration != after.Generation {
		t.Errorf("generation %d after %d, observed %d", after.Generation, changed.Generation, after.Status.ObservedGeneration)
	}
}

// TestDeletedTokenIsReplaced checks that the release of a mapped user becomes active although Coder
// has deleted the user's tokens meanwhile.
func TestDeletedTokenIsReplaced(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.coder.AddUser("editor", "template-admin")
	connection := f.connection()
	connection.Rules = []coderv1alpha1.IdentityRule{{Match: coderv1alpha1.IdentityMatch{UserName: "ada"}, CoderUser: &coderv1alpha1.CoderUserReference{Username: "editor"}}}
	provider := fixedProvider{connection}
	f.kind.Connections = provider
	f.kind.Actors = impersonation.New(impersonation.Config{Sessions: usertokens.NewSessions(provider, "replica", f.clock), Clock: f.clock})
	f.must(f.update("coder.starter", files("# two")))
	f.pass()
	editor, err := f.watcher.UserByName(t.Context(), "editor")
	f.must(err)
	f.must(f.watcher.SetPassword(t.Context(), editor, "Secret-Passw0rd"))
	f.build()
	f.mustBe("coder.starter", "True Active", "# two")
}

func TestFilesThatDoNotBuild(t *testing.T) {
	f := newFixture(t)
	before := f.get("coder.starter").Spec.VersionID
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "terraform: bad syntax"})
	f.must(f.update("coder.starter", files("broken {")))
	f.sync()
	f.mustBe("coder.starter", "False BuildFailed", "broken {")
	broken := f.get("coder.starter")
	if condition(broken, "Stalled") != "True BuildFailed" || broken.Spec.VersionID != before {
		t.Errorf("%+v", broken.Status)
	}
	f.coder.ResetRequests()
	f.must(f.update("coder.starter", files("broken {")))
	if n := f.coder.Writes(); n != 0 {
		t.Errorf("%d writes for the same files again", n)
	}
	// Back and forth: the failed version is found, not built again.
	f.must(f.update("coder.starter", files("# one")))
	f.sync()
	f.mustBe("coder.starter", "True Active", "# one")
	f.must(f.update("coder.starter", files("broken {")))
	f.sync()
	f.mustBe("coder.starter", "False BuildFailed", "broken {")
	if n := f.coder.VersionCount(); n != 2 {
		t.Errorf("%d versions, want 2", n)
	}
	f.coder.SetBuildResult("", coderdtest.BuildResult{})
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.VersionName = "again" }))
	f.sync()
	f.mustBe("coder.starter", "True Active", "broken {")
	mustBeInvalid(t, f.update("coder.starter", files("# mended")), "spec.versionName", "existing version")
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		files("# mended")(tmpl)
		tmpl.Spec.VersionName = ""
	}))
	f.sync()
	f.mustBe("coder.starter", "True Active", "# mended")
}

func TestANameIsNeededForEachNamedVersion(t *testing.T) {
	f := newFixture(t)
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Files, tmpl.Spec.VersionName, tmpl.Spec.VersionMessage = map[string]string{mainTF: "# two"}, "v2", "the second"
	}))
	f.sync()
	if got := f.get("coder.starter"); got.Status.ActiveVersionName != "v2" || got.Spec.VersionMessage != "the second" {
		t.Errorf("%+v", got)
	}
	versions, err := f.watcher.TemplateVersions(f.ctx, f.starter)
	if err != nil || versions[1].Message != "the second" {
		t.Errorf("%+v, %v", versions, err)
	}
	count := f.coder.VersionCount()
	mustBeInvalid(t, f.update("coder.starter", files("# three")), "spec.versionName", "existing version")
	f.sync()
	f.mustBe("coder.starter", "True Active", "# two")
	if n := f.coder.VersionCount(); n != count {
		t.Errorf("%d versions after %d", n, count)
	}
}

func TestOnlyTheNewestFilesBecomeActive(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.must(f.update("coder.starter", files("# two")))
	f.must(f.update("coder.starter", files("# three")))
	f.build()
	f.mustBe("coder.starter", "True Active", "# three")
	if status := f.get("coder.starter").Status; status.ActiveVersionID != status.LatestVersionID {
		t.Errorf("an older version is active: %+v", status)
	}
	// Back to a content that was built and superseded: nothing is built again.
	f.must(f.update("coder.starter", files("# two")))
	f.sync()
	f.mustBe("coder.starter", "True Active", "# two")
	if n := f.coder.VersionCount(); n != 3 {
		t.Errorf("%d versions, want 3", n)
	}
}

func TestAChangeCanBeTakenBack(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	before := f.get("coder.starter").Spec.VersionID
	f.must(f.update("coder.starter", files("# two")))
	f.must(f.update("coder.starter", files("# one")))
	f.mustBe("coder.starter", "True Active", "# one")
	f.build()
	f.mustBe("coder.starter", "True Active", "# one")
	if got := f.get("coder.starter").Spec.VersionID; got != before || f.coder.VersionCount() != 2 {
		t.Errorf("active is %s, was %s, %d versions", got, before, f.coder.VersionCount())
	}
}

// TestANamedVersionCanBeTakenBack checks that the manifest of the active version can be applied again, also in a dry run,
// while the next version is built and after it failed. Nothing is built for it.
func TestANamedVersionCanBeTakenBack(t *testing.T) {
	manifest := func(text, name string) func(*aggregationv1alpha1.CoderTemplate) {
		return func(tmpl *aggregationv1alpha1.CoderTemplate) {
			files(text)(tmpl)
			tmpl.Spec.VersionName = name
		}
	}
	for _, fails := range []bool{false, true} {
		for _, name := range []string{"v1", "v2", "v3"} {
			t.Run(fmt.Sprintf("fails %t, %s", fails, name), func(t *testing.T) {
				f := newFixture(t, coderdtest.WithManualBuilds())
				f.must(f.update("coder.starter", manifest("# first", "v1")))
				f.build()
				f.mustBe("coder.starter", "True Active", "# first")
				active := f.get("coder.starter").Spec.VersionID
				if fails {
					f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "terraform: bad syntax"})
				}
				f.must(f.update("coder.starter", manifest("# second", "v2")))
				if fails {
					f.build()
					f.mustBe("coder.starter", "False BuildFailed", "# second")
				}
				was, count := f.get("coder.starter"), f.coder.VersionCount()
				wanted := was.DeepCopy()
				manifest("# first", name)(wanted)
				if err := f.kind.CheckUpdate(f.ctx, wanted, was); err != nil {
					t.Errorf("a dry run: %v", err)
				}
				f.must(f.update("coder.starter", manifest("# first", name)))
				f.mustBe("coder.starter", "True Active", "# first")
				f.build()
				f.mustBe("coder.starter", "True Active", "# first")
				if got := f.get("coder.starter"); got.Spec.VersionID != active || got.Spec.VersionName != name || f.coder.VersionCount() != count {
					t.Errorf("%+v, %d versions after %d", got.Spec, f.coder.VersionCount(), count)
				}
			})
		}
	}
}

func TestSomebodyElseActivatesAnother(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	draft := f.coder.AddTemplateVersion(f.starter, "", map[string]string{mainTF: "# draft"})
	f.must(f.update("coder.starter", files("# two")))
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, draft))
	f.build()
	f.mustBe("coder.starter", "True Active", "# draft")
	if got := f.get("coder.starter"); got.Status.ActiveVersionID != draft.String() || got.Generation < 3 {
		t.Errorf("%+v", got)
	}
}

func TestRollBack(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	first := f.get("coder.starter").Spec.VersionID
	pin := func(id string) func(*aggregationv1alpha1.CoderTemplate) {
		return func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.VersionID = id }
	}
	f.must(f.update("coder.starter", files("# two")))
	f.build()
	// A version that is being built is no longer wanted then.
	f.must(f.update("coder.starter", files("# three")))
	f.must(f.update("coder.starter", pin(first)))
	f.mustBe("coder.starter", "True Active", "# one")
	f.build()
	f.mustBe("coder.starter", "True Active", "# one")
	if got := f.get("coder.starter").Spec.VersionID; got != first {
		t.Errorf("active is %s, want %s", got, first)
	}
	other := f.coder.AddTemplate("coder", "other", map[string]string{mainTF: "# x"})
	foreign := f.coder.AddTemplateVersion(other, "", map[string]string{mainTF: "# y"})
	for name, id := range map[string]string{"foreign": foreign.String(), "unknown": "00000000-0000-0000-0000-000000000001", "no id": "1"} {
		t.Run(name, func(t *testing.T) { mustBeInvalid(t, f.update("coder.starter", pin(id)), "spec.versionID", "") })
	}
	mustBeInvalid(t, f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		pin(foreign.String())(tmpl)
		files("# four")(tmpl)
	}), "spec.versionID", "together")
}

func TestPolicy(t *testing.T) {
	f := newFixture(t)
	f.coder.PatchTemplate(t, f.starter, map[string]any{"default_ttl_ms": 7_200_000, "cors_behavior": "passthru", "display_name": "Old"})
	f.sync()
	if got := f.get("coder.starter"); *got.Spec.DefaultTTLMillis != 7_200_000 || got.Generation != 2 {
		t.Errorf("a change at Coder shows as %+v", got.Spec)
	}
	before := f.coder.TemplateFields(f.starter)
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		// Like kubectl apply of a manifest that sets nothing else.
		tmpl.Spec = aggregationv1alpha1.CoderTemplateSpec{DisplayName: "Starter", ActivityBumpMillis: ptr.To[int64](0)}
	}))
	got := f.get("coder.starter")
	if got.Spec.DisplayName != "Starter" || *got.Spec.ActivityBumpMillis != 0 || *got.Spec.DefaultTTLMillis != 7_200_000 || got.Spec.CORSBehavior != "passthru" {
		t.Errorf("%+v", got.Spec)
	}
	after := f.coder.TemplateFields(f.starter)
	for _, changed := range []string{"display_name", "activity_bump_ms", "updated_at"} {
		delete(before, changed)
		delete(after, changed)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something else changed (-before +after):\n%s", diff)
	}
	if n := f.coder.VersionCount(); n != 1 {
		t.Errorf("%d versions", n)
	}
}

func TestMetadataIsNoBusinessOfCoders(t *testing.T) {
	f := newFixture(t)
	f.coder.ResetRequests()
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Labels["team"], tmpl.Finalizers = "a", []string{"example.com/wait"}
		delete(tmpl.Labels, aggregationv1alpha1.LabelControlPlaneName)
	}))
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.FailedVersionsHistoryLimit, tmpl.Spec.VersionMessage = ptr.To[int32](1), "next"
	}))
	if n := len(f.coder.Requests()); n != 0 {
		t.Errorf("Coder was asked: %v", f.coder.Requests())
	}
	written := f.get("coder.starter")
	f.sync()
	read := f.get("coder.starter")
	if read.Labels["team"] != "a" || read.Labels[aggregationv1alpha1.LabelControlPlaneName] != "prod" || *read.Spec.FailedVersionsHistoryLimit != 1 {
		t.Errorf("%+v", read)
	}
	if diff := cmp.Diff(written, read); diff != "" {
		t.Errorf("what is written is not what is read (-written +read):\n%s", diff)
	}
	if read.Generation != 2 {
		t.Errorf("generation %d", read.Generation)
	}
}

func TestFailedVersionsAreArchived(t *testing.T) {
	f := newFixture(t)
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "no"})
	for i := range 6 {
		f.must(f.update("coder.starter", files(fmt.Sprintf("broken %d", i))))
		f.sync()
	}
	left := func() (names int) {
		versions, err := f.watcher.TemplateVersions(f.ctx, f.starter)
		f.must(err)
		for _, v := range versions {
			if failed(v) {
				names++
			}
		}
		return names
	}
	if n := left(); n != 3 {
		t.Errorf("%d failed versions are left, want 3", n)
	}
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.FailedVersionsHistoryLimit = ptr.To[int32](0) }))
	f.sync()
	if n := left(); n != 1 {
		t.Errorf("%d failed versions are left, want the one that is asked for", n)
	}
	f.mustBe("coder.starter", "False BuildFailed", "broken 5")
}

func TestAtRestCoderIsHardlyAsked(t *testing.T) {
	f := newFixture(t)
	f.must(f.update("coder.starter", files("# two")))
	f.sync()
	f.coder.ResetRequests()
	for range 60 {
		f.pass()
	}
	requests := 0
	for class, n := range f.coder.Requests() {
		if class != "GET /api/v2/templates" {
			requests += n
		}
	}
	if requests > 2 {
		t.Errorf("%d requests in two minutes: %v", requests, f.coder.Requests())
	}
}

func TestUnreachable(t *testing.T) {
	f := newFixture(t)
	start := f.get("coder.starter")
	since := f.clock.Now().Add(time.Hour)
	lost := f.kind.Unreachable(start, since, "no answer").(*aggregationv1alpha1.CoderTemplate)
	if condition(lost, "Synced") != "False CoderUnreachable" || condition(lost, "Ready") != "True Active" || condition(start, "Synced") != "True Synced" {
		t.Errorf("%+v", lost.Status.Conditions)
	}
	if got := f.kind.Unreachable(lost, since, "no answer"); got != nil {
		t.Error("the same twice")
	}
	if got := f.kind.Unreachable(nil, since, ""); got != nil {
		t.Error("something of nothing")
	}
}
