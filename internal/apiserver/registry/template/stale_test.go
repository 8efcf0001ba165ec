package template

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// activateInCoder creates a version in Coder and makes it active there, as a CI job does.
func (f *fixture) activateInCoder(files map[string]string) uuid.UUID {
	f.t.Helper()
	version := f.coder.AddTemplateVersion(f.starter, "from CI", files)
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, version))
	return version
}

// TestAChangeIsBasedOnTheNewestVersion covers a patch of one file that follows the activation of a version in
// Coder, before the mirror has read it. The patch is applied to the new version. It never restores the old one.
func TestAChangeIsBasedOnTheNewestVersion(t *testing.T) {
	f := newFixture(t)
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Files = map[string]string{mainTF: "# one", "a.tf": "# one"}
	}))
	f.sync()
	f.activateInCoder(map[string]string{mainTF: "# two", "a.tf": "# two"})
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Files["a.tf"] = "# patched" }))
	f.sync()
	want := map[string]string{mainTF: "# two", "a.tf": "# patched"}
	if diff := cmp.Diff(want, f.get("coder.starter").Spec.Files); diff != "" {
		t.Errorf("the active source (-want +got):\n%s", diff)
	}
	f.mustBe("coder.starter", "True Active", "# two")
}

// TestAnOutdatedTemplate covers changes of a template that has changed in Coder since it was stored. No request that
// changes something is sent to Coder before the newer object is stored. A dry run returns no conflict.
func TestAnOutdatedTemplate(t *testing.T) {
	changes := map[string]func(*aggregationv1alpha1.CoderTemplate){
		"a file":       files("# three"),
		"a policy":     func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.DisplayName = "Mine" },
		"a variable":   func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Variables = variableFrom("db")[:1] },
		"another name": func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.VersionName = "v7" },
	}
	inCoder := map[string]func(f *fixture){
		"a version":   func(f *fixture) { f.activateInCoder(map[string]string{mainTF: "# two"}) },
		"the icon":    func(f *fixture) { f.coder.PatchTemplate(f.t, f.starter, map[string]any{"icon": "/theirs.svg"}) },
		"the default": func(f *fixture) { f.coder.PatchTemplate(f.t, f.starter, map[string]any{"default_ttl_ms": 7_200_000}) },
	}
	for what, change := range changes {
		for theirs, outside := range inCoder {
			t.Run(what+" after "+theirs, func(t *testing.T) {
				f := newFixture(t)
				was := f.get("coder.starter")
				outside(f)
				f.coder.ResetRequests()
				wanted := was.DeepCopy()
				change(wanted)
				f.must(f.kind.CheckUpdate(f.ctx, wanted, was))
				_, err := f.kind.Write(f.ctx, "/aggregation.coder.com/codertemplates/"+namespace+"/coder.starter", was, wanted)
				var newer *records.NewerError
				if !errors.As(err, &newer) || !apierrors.IsConflict(err) {
					t.Fatalf("%v, want that the object is outdated", err)
				}
				if n := f.coder.Writes(); n != 0 || len(f.records.All()) != 0 {
					t.Errorf("%d writes to Coder: %v; records %v", n, f.coder.Requests(), f.records.All())
				}
				f.sync()
				if diff := cmp.Diff(f.get("coder.starter").Spec, newer.Object.(*aggregationv1alpha1.CoderTemplate).Spec); diff != "" {
					t.Errorf("the newer object (-mirrored +got):\n%s", diff)
				}
			})
		}
	}
}

// TestAnArchiveIsPutOverANewerVersion covers PUT of codertemplates/files: the archive replaces the newest version as
// a whole, unless the request names the object on which it is based.
func TestAnArchiveIsPutOverANewerVersion(t *testing.T) {
	f := newFixture(t)
	f.activateInCoder(map[string]string{mainTF: "# two", "b.tf": "# two"})
	if answer := f.subresource(http.MethodPut, "coder.starter", "", zipOf(t, map[string]string{mainTF: "# put"})); answer.err != nil {
		t.Fatal(answer.err)
	}
	f.sync()
	if diff := cmp.Diff(map[string]string{mainTF: "# put"}, f.get("coder.starter").Spec.Files); diff != "" {
		t.Errorf("the active source (-want +got):\n%s", diff)
	}
}

// TestAVersionIsNotPromotedOverANewerOne covers a version that is activated in Coder between the mirror's read of the
// template and the promotion of a requested version.
func TestAVersionIsNotPromotedOverANewerOne(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.must(f.update("coder.starter", files("# requested")))
	f.pass()
	f.coder.FinishBuilds()
	item, err := f.watcher.Template(f.ctx, f.starter)
	f.must(err)
	f.clock.Step(2 * stuckAge)
	newer := f.activateInCoder(map[string]string{mainTF: "# two"})
	record := f.recordOf(item)
	if again, err := f.kind.Settle(f.ctx, f.connection(), item, record); err != nil || !again {
		t.Errorf("settling: %t, %v", again, err)
	}
	now, err := f.watcher.Template(f.ctx, f.starter)
	f.must(err)
	if now.ActiveVersionID != newer {
		t.Error("the requested version replaced the newer one")
	}
	f.coder.FinishBuilds()
	f.sync()
	f.mustBe("coder.starter", "True Active", "# two")
}
