package template

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestCandidateThatFails(t *testing.T) {
	f := newFixture(t)
	first := f.get(starter).Status.ActiveVersionID
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "no such image"})
	named := func(tmpl *aggregationv1alpha1.CoderTemplate) {
		manually("# two")(tmpl)
		tmpl.Spec.VersionName = "v2"
	}
	f.must(f.update(starter, named))
	f.build()
	f.again(named)
	f.mustBe(starter, "False BuildFailed", "# two")
	status := f.get(starter).Status
	if c := status.Candidate; c == nil || c.Name != "v2" || c.Status != buildFailed || c.Error != "no such image" || status.ActiveVersionID != first {
		t.Errorf("the status is %+v", status)
	}
	if err := f.promote(aggregationv1alpha1.CoderTemplatePromotion{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "its build is failed") {
		t.Errorf("promoting it: %v", err)
	}
	f.coder.SetBuildResult("", coderdtest.BuildResult{})
	f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.VersionName = "v3" }))
	f.build()
	f.waits("# one", "# two", 3)
}

// TestNamedVersionAfterRollback: a manifest with a version name is applied again after its version was replaced in Coder.
func TestNamedVersionAfterRollback(t *testing.T) {
	f := newFixture(t)
	first := f.get(starter).Status.ActiveVersionID
	named := func(tmpl *aggregationv1alpha1.CoderTemplate) {
		manually("# two")(tmpl)
		tmpl.Spec.VersionName = "v2"
	}
	f.must(f.update(starter, named))
	f.build()
	if err := f.promote(aggregationv1alpha1.CoderTemplatePromotion{VersionName: "V2"}); !apierrors.IsNotFound(err) {
		t.Errorf("a name in another case: %v, want 404", err)
	}
	f.must(f.promote(aggregationv1alpha1.CoderTemplatePromotion{VersionName: "v2"}))
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, uuid.MustParse(first)))
	f.sync()
	f.waits("# one", "", 2)
	f.again(named)
	f.waits("# one", "# two", 2)
}

func TestChangedSecretMakesACandidate(t *testing.T) {
	f := newFixture(t)
	f.secrets["db/password"] = "one"
	f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) {
		manually("# two")(tmpl)
		tmpl.Spec.Variables = variableFrom("db")
	}))
	f.build()
	f.must(f.promote(aggregationv1alpha1.CoderTemplatePromotion{}))
	f.sync()
	f.waits("# two", "", 2)
	f.secrets["db/password"] = "two"
	f.clock.Step(rotationInterval)
	f.build()
	f.waits("# two", "# two", 3)
	if c := f.get(starter).Status; c.Candidate.ID == c.ActiveVersionID {
		t.Errorf("the status is %+v", c)
	}

	// A candidate that waits when activation changes to Automatic waits until it is promoted, also with the changed Secret.
	f.must(f.update(starter, manually("# three")))
	f.build()
	f.waits("# two", "# three", 4)
	f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Activation = "" }))
	f.secrets["db/password"] = "three"
	f.clock.Step(rotationInterval)
	f.build()
	f.waits("# two", "# three", 5)
}

func TestPromotionsThatAreRefused(t *testing.T) {
	f := newFixture(t)
	first := f.get(starter).Status.ActiveVersionID
	f.must(f.update(starter, manually("# one")))
	archived := f.coder.AddTemplateVersion(f.starter, "", map[string]string{mainTF: "# old"})
	f.must(f.watcher.ArchiveVersion(f.ctx, archived))
	name := f.get(starter).Status.ActiveVersionName
	for what, c := range map[string]struct {
		asked aggregationv1alpha1.CoderTemplatePromotion
		is    func(error) bool
		says  string
	}{
		"no candidate":      {aggregationv1alpha1.CoderTemplatePromotion{}, apierrors.IsConflict, "there is no candidate"},
		"foreign":           {aggregationv1alpha1.CoderTemplatePromotion{VersionID: f.foreign()}, apierrors.IsInvalid, "is not a version of this template"},
		"unknown":           {aggregationv1alpha1.CoderTemplatePromotion{VersionID: uuid.NewString()}, apierrors.IsInvalid, "there is no such version"},
		"no UUID":           {aggregationv1alpha1.CoderTemplatePromotion{VersionID: "v2"}, apierrors.IsInvalid, "must be the UUID"},
		"archived":          {aggregationv1alpha1.CoderTemplatePromotion{VersionID: archived.String()}, apierrors.IsInvalid, "it is archived"},
		"unknown name":      {aggregationv1alpha1.CoderTemplatePromotion{VersionName: "v9"}, apierrors.IsNotFound, `has no version "v9"`},
		"another name":      {aggregationv1alpha1.CoderTemplatePromotion{VersionName: name, VersionID: archived.String()}, apierrors.IsConflict, "has the id " + first},
		"another is active": {aggregationv1alpha1.CoderTemplatePromotion{VersionID: first, ActiveVersionID: archived.String()}, apierrors.IsConflict, "is active now"},
		"another template":  {aggregationv1alpha1.CoderTemplatePromotion{ObjectMeta: metav1.ObjectMeta{Name: "coder.other"}}, apierrors.IsBadRequest, "in the address"},
	} {
		if err := f.promote(c.asked); !c.is(err) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	mustBeInvalid(t, f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Activation = "manual" }), "spec.activation", "Manual")
	f.waits("# one", "", 4)
}

// authors is an authorizer with which one user may not promote.
type authors struct{ denied string }

func (a authors) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	path := []string{asked.GetVerb(), asked.GetAPIGroup(), asked.GetNamespace(), asked.GetResource(), asked.GetSubresource(), asked.GetName()}
	if !slices.Equal(path, []string{"create", "aggregation.coder.com", namespace, Plural, promoteSubresource, starter}) {
		return authorizer.DecisionDeny, "", fmt.Errorf("%v is asked", path)
	}
	if asked.GetUser().GetName() == a.denied {
		return authorizer.DecisionDeny, "", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// TestManualIsAGate checks that a user who may change the template, and may not promote, makes no version active.
func TestManualIsAGate(t *testing.T) {
	f := newFixture(t)
	f.kind.authorizer = authors{"ada"}
	first := f.get(starter).Status.ActiveVersionID
	f.must(f.update(starter, manually("# two")))
	f.build()
	second := f.get(starter).Status.Candidate.ID
	for what, change := range map[string]func(*aggregationv1alpha1.CoderTemplate){
		"the version":       pinned("# two", second),
		"version and files": pinned("# three", second),
		"Automatic": func(tmpl *aggregationv1alpha1.CoderTemplate) {
			tmpl.Spec.Activation = aggregationv1alpha1.ActivationAutomatic
		},
		"no activation":      func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Activation = "" },
		"automatic and more": func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Activation = ""; files("# three")(tmpl) },
	} {
		if err := f.update(starter, change); !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "the verb create on codertemplates/promote") {
			t.Errorf("%s: %v, want 403", what, err)
		}
		was := f.get(starter)
		wanted := was.DeepCopy()
		change(wanted)
		if err := f.kind.CheckUpdate(f.ctx, wanted, was); !apierrors.IsForbidden(err) {
			t.Errorf("%s, in a dry run: %v, want 403", what, err)
		}
	}
	f.waits("# one", "# two", 2)
	f.must(f.update(starter, manually("# three")))
	f.build()
	f.waits("# one", "# three", 3)
	f.kind.authorizer = authors{"another"}
	f.must(f.update(starter, pinned("# three", second)))
	f.waits("# two", "# three", 3)
	f.must(f.update(starter, func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Activation = ""; tmpl.Spec.VersionID = first }))
	f.waits("# one", "", 3)
}
