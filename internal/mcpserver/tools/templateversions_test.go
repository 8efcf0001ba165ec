package tools

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestPromoteTemplateVersion(t *testing.T) {
	promotion := func(version, confirm string) promoteTemplateVersionInput {
		return promoteTemplateVersionInput{Namespace: "coder", Name: dockerName, VersionID: version, Confirm: confirm}
	}
	for name, tt := range map[string]struct {
		in          promoteTemplateVersionInput
		wantVersion string
		wantError   string
	}{
		"another one":    {promotion(newID, dockerName), newID, ""},
		"unasked":        {promotion(newID, ""), activeID, "nothing was done yet: ask the user"},
		"the active one": {promotion(activeID, ""), activeID, ""},
		"none":           {promotion("", dockerName), activeID, "versionID is required"},
		"of no template": {promoteTemplateVersionInput{Namespace: "coder", Name: "coder.other", VersionID: newID}, activeID, `"coder.other" not found`},
		"of no one's":    {promoteTemplateVersionInput{Name: dockerName, VersionID: newID}, activeID, "namespace is required"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fakeKube(t, interceptor.Funcs{}, nil, dockerTemplate())
			out, err := promoteTemplateVersion(t.Context(), &toolset.Call{Kube: kube}, tt.in)
			if got := served(t, kube, dockerName, &aggregationv1alpha1.CoderTemplate{}).Spec.VersionID; got != tt.wantVersion {
				t.Errorf("the version is %s, want %s", got, tt.wantVersion)
			}
			if tt.wantError != "" {
				wantError(t, err, tt.wantError)
				return
			}
			if changed := tt.wantVersion != activeID; err != nil || out.Updated != changed || changed == (out.Message != "") {
				t.Errorf("the answer is %+v, %v", out, err)
			}
		})
	}
}

func TestPromoteTemplateVersionTriesOnly(t *testing.T) {
	in := promoteTemplateVersionInput{Namespace: "coder", Name: dockerName, VersionID: newID, DryRun: true}
	out, err := promoteTemplateVersion(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil, dockerTemplate())}, in)
	if err != nil || out.Updated || out.Message != wouldBeAccepted {
		t.Errorf("the answer is %+v, %v", out, err)
	}
}

func TestPromoteTemplateVersionAgainWhereSomebodyElseWrote(t *testing.T) {
	other := func(obj client.Object) { obj.(*aggregationv1alpha1.CoderTemplate).Spec.Icon = "/icon/new.png" }
	kube := fakeKube(t, failingUpdates(other, conflict("codertemplates"), conflict("codertemplates")), nil, dockerTemplate())
	in := promoteTemplateVersionInput{Namespace: "coder", Name: dockerName, VersionID: newID, Confirm: dockerName}
	if out, err := promoteTemplateVersion(t.Context(), &toolset.Call{Kube: kube}, in); err != nil || !out.Updated {
		t.Fatalf("the answer is %+v, %v", out, err)
	}
	if spec := served(t, kube, dockerName, &aggregationv1alpha1.CoderTemplate{}).Spec; spec.VersionID != newID || spec.Icon != "/icon/new.png" {
		t.Errorf("the spec is %+v", spec)
	}
}

func TestPromoteTemplateVersionSaysWhatIsWrong(t *testing.T) {
	refused := apierrors.NewInvalid(aggregationv1alpha1.GroupVersion.WithKind("CoderTemplate").GroupKind(), dockerName, field.ErrorList{
		field.Invalid(field.NewPath("spec", "versionID"), newID, "cannot become active, because its build is failed and not succeeded"),
	})
	arguments := map[string]any{"namespace": "coder", "name": dockerName, "versionID": newID, "confirm": dockerName}
	const object = "codertemplates.aggregation.coder.com coder/coder.docker"
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"a version that was not built": {refused, "cannot update " + object + `: spec.versionID: Invalid value: "` + newID + `": cannot become active, because its build is failed and not succeeded`},
		"no right":                     {forbidden("codertemplates"), `user "alice" may not update ` + object + "; ask an administrator for the permission"},
	} {
		s := connectTools(t, toolset.Env{Kube: fakeKube(t, failingUpdates(nil, tt.err), nil, dockerTemplate())})
		if answer, isError := s.say(t, "promote_template_version", arguments); !isError || answer != tt.want {
			t.Errorf("%s: the answer is %s\nwant %s", name, answer, tt.want)
		}
	}
}

func TestPromoteTemplateVersionShowsNothingThatIsNoMore(t *testing.T) {
	const begin = `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderTemplate","metadata":{"namespace":"coder","name":"coder.docker"},`
	kube := answering(t,
		begin+`"spec":{"icon":"/icon/old.png"},"status":{"latestVersionError":"no provider"}}`,
		conflictAnswer,
		begin+`"spec":{},"status":{"latestVersionError":"no provider"}}`,
		begin+`"spec":{},"status":{"latestVersionStatus":"succeeded"}}`)
	tmpl, err := readTemplate(t.Context(), kube, "coder", dockerName)
	if err != nil {
		t.Fatal(err)
	}
	err = writeTemplate(t.Context(), &toolset.Call{Kube: kube}, tmpl, false, func(spec *aggregationv1alpha1.CoderTemplateSpec) bool {
		spec.VersionID = newID
		return true
	})
	if err != nil || tmpl.Status.LatestVersionError != "" || tmpl.Spec.Icon != "" {
		t.Errorf("%v: %+v", err, tmpl)
	}
}
