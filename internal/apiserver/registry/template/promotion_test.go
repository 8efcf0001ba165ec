package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

const starter = "coder.starter"

// manually returns a change of the source with activation Manual, as a manifest with it does.
func manually(text string) func(*aggregationv1alpha1.CoderTemplate) {
	return func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Activation = aggregationv1alpha1.ActivationManual
		files(text)(tmpl)
	}
}

// pinned returns a change of the source and of the active version with activation Manual.
func pinned(text, version string) func(*aggregationv1alpha1.CoderTemplate) {
	return func(tmpl *aggregationv1alpha1.CoderTemplate) {
		manually(text)(tmpl)
		tmpl.Spec.VersionID = version
	}
}

// promote sends a request to codertemplates/promote.
func (f *fixture) promote(asked aggregationv1alpha1.CoderTemplatePromotion) error {
	f.t.Helper()
	storage := f.kind.Subresources(oneStore{f})[promoteSubresource].(rest.NamedCreater)
	_, err := storage.Create(f.ctx, starter, &asked, nil, &metav1.CreateOptions{})
	return err
}

// waits checks the template: the source of the active version, that of the candidate, or "" if there must be none, and the
// number of versions.
func (f *fixture) waits(active, candidate string, versions int) {
	f.t.Helper()
	tmpl := f.get(starter)
	shown, ready := active, "True Active"
	if candidate != "" {
		shown, ready = candidate, "True AwaitingPromotion"
	}
	f.mustBe(starter, ready, shown)
	if got := f.sourceOf(tmpl.Status.ActiveVersionID); got != active || tmpl.Spec.VersionID != tmpl.Status.ActiveVersionID {
		f.t.Errorf("the active version has the source %q, want %q (%+v)", got, active, tmpl.Status)
	}
	switch c := tmpl.Status.Candidate; {
	case c == nil && candidate != "":
		f.t.Errorf("there is no candidate: %+v", tmpl.Status)
	case c == nil:
	case candidate == "" || f.sourceOf(c.ID) != candidate || c.Status != buildSucceeded || c.CreatedAt == nil:
		f.t.Errorf("the candidate is %+v, want one with the source %q", c, candidate)
	}
	if tmpl.Status.ObservedGeneration != tmpl.Generation || f.coder.VersionCount() != versions {
		f.t.Errorf("generation %d of %d is observed, and there are %d versions, want %d",
			tmpl.Status.ObservedGeneration, tmpl.Generation, f.coder.VersionCount(), versions)
	}
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// sourceOf returns main.tf of a version.
func (f *fixture) sourceOf(version string) string {
	f.t.Helper()
	v, err := f.watcher.TemplateVersion(f.ctx, uuid.MustParse(version))
	f.must(err)
	archive, err := f.watcher.DownloadArchive(f.ctx, v.FileID)
	f.must(err)
	return archive.TextFiles()[mainTF]
}

// again applies the same change twice: neither builds a version nor changes the active one.
func (f *fixture) again(change func(*aggregationv1alpha1.CoderTemplate)) {
	f.t.Helper()
	active, count := f.get(starter).Status.ActiveVersionID, f.coder.VersionCount()
	for range 2 {
		f.must(f.update(starter, change))
		f.build()
		if now := f.get(starter).Status.ActiveVersionID; now != active || f.coder.VersionCount() != count {
			f.t.Fatalf("version %s is active after %s, and there are %d versions after %d", now, active, f.coder.VersionCount(), count)
		}
	}
}

func TestCandidateIsPromotedAndRolledBack(t *testing.T) {
	f := newFixture(t)
	first := f.get(starter).Status.ActiveVersionID
	f.must(f.update(starter, manually("# two")))
	f.build()
	f.waits("# one", "# two", 2)
	f.again(manually("# two"))
	f.restart()
	f.again(manually("# two"))
	f.waits("# one", "# two", 2)
	second := f.get(starter).Status.Candidate.ID

	f.must(f.promote(aggregationv1alpha1.CoderTemplatePromotion{ActiveVersionID: first}))
	f.waits("# two", "", 2)
	f.sync()
	f.waits("# two", "", 2)
	f.again(manually("# two"))

	// The version that is rolled back is the candidate again, so the manifest is still applied.
	f.must(f.promote(aggregationv1alpha1.CoderTemplatePromotion{VersionID: first, ActiveVersionID: second}))
	f.waits("# one", "# two", 2)
	f.sync()
	f.again(manually("# two"))
	f.waits("# one", "# two", 2)
	f.must(f.promote(aggregationv1alpha1.CoderTemplatePromotion{}))
	f.waits("# two", "", 2)

	var history []string
	for _, a := range f.get(starter).Status.History {
		history = append(history, a.VersionID)
		if (a.Since == nil) != (len(history) == 4) {
			t.Errorf("entry %d is %+v", len(history), a)
		}
	}
	if diff := cmp.Diff([]string{second, first, second, first}, history); diff != "" {
		t.Errorf("the history (-want +got):\n%s", diff)
	}
}

// TestOneManifestHasCandidateAndActiveVersion covers a manifest in Git with both files and versionID.
func TestOneManifestHasCandidateAndActiveVersion(t *testing.T) {
	f := newFixture(t)
	first := f.get(starter).Status.ActiveVersionID
	for range 2 {
		f.must(f.update(starter, pinned("# two", first)))
		f.build()
		f.waits("# one", "# two", 2)
	}
	second := f.get(starter).Status.Candidate.ID
	for range 2 {
		f.must(f.update(starter, pinned("# two", second)))
		f.sync()
		f.waits("# two", "", 2)
	}
	// The commit is reverted.
	for range 2 {
		f.must(f.update(starter, pinned("# two", first)))
		f.sync()
		f.waits("# one", "# two", 2)
	}
	// A commit promotes a version, and has the files of the next one.
	for range 2 {
		f.must(f.update(starter, pinned("# three", second)))
		f.build()
		f.waits("# two", "# three", 3)
	}
	// The files are those of the active version again.
	f.must(f.update(starter, pinned("# two", second)))
	f.waits("# two", "", 3)
	f.again(pinned("# two", second))
	f.waits("# two", "", 3)
}

// TestVersionThatWasNotCreatedHere: the active version was created in Coder, and another one replaces it.
func TestVersionThatWasNotCreatedHere(t *testing.T) {
	f := newFixture(t)
	f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Activation = aggregationv1alpha1.ActivationManual
	}))
	other := f.coder.AddTemplateVersion(f.starter, "", map[string]string{mainTF: "# other"}).String()
	f.must(f.update(starter, pinned("# one", other)))
	f.waits("# other", "# one", 2)
	f.sync()
	f.again(pinned("# one", other))
	f.waits("# other", "# one", 2)
}

func TestCandidateStaysWhenActivationChanges(t *testing.T) {
	f := newFixture(t)
	automatic := func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Activation = aggregationv1alpha1.ActivationAutomatic
	}
	// A version that is being built becomes a candidate.
	f.must(f.update(starter, files("# two")))
	f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.Activation = aggregationv1alpha1.ActivationManual
	}))
	f.build()
	f.waits("# one", "# two", 2)
	f.must(f.update(starter, automatic))
	f.sync()
	f.waits("# one", "# two", 2)
	f.must(f.update(starter, files("# three")))
	f.build()
	f.waits("# three", "", 3)
}

func TestActivationsInCoder(t *testing.T) {
	f := newFixture(t)
	f.must(f.update(starter, manually("# two")))
	f.build()
	other := f.coder.AddTemplateVersion(f.starter, "", map[string]string{mainTF: "# other"})
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, other))
	f.sync()
	f.waits("# other", "# two", 3)
	candidate := uuid.MustParse(f.get(starter).Status.Candidate.ID)
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, candidate))
	f.sync()
	f.waits("# two", "", 3)
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, other))
	f.sync()
	f.waits("# other", "", 3)
	// The manifest is applied again: the version exists, and is the candidate again.
	f.must(f.update(starter, manually("# two")))
	f.sync()
	f.waits("# other", "# two", 3)
	for i := range 2 * maxHistory {
		f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, []uuid.UUID{candidate, other}[i%2]))
		f.sync()
	}
	history := f.get(starter).Status.History
	if len(history) != maxHistory || history[0].VersionID != other.String() || history[1].VersionID != candidate.String() {
		t.Errorf("the history is %+v", history)
	}
}
