package tools

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func pushed() pushTemplateInput {
	return pushTemplateInput{Namespace: "coder", Name: dockerName, Files: map[string]string{"main.tf": "# after", "x.tf": ""}, Confirm: dockerName}
}

func TestPushTemplate(t *testing.T) {
	type spec = aggregationv1alpha1.CoderTemplateSpec
	before := func() spec {
		s := dockerTemplate().Spec
		s.VersionName, s.VersionMessage = "v1", "first"
		s.Variables = []aggregationv1alpha1.TemplateVariable{{Name: "image", Value: "a"}, {Name: "zone", Value: "b"}}
		return s
	}
	secret := &aggregationv1alpha1.TemplateVariableSource{SecretKeyRef: &aggregationv1alpha1.SecretKeySelector{Name: "registry", Key: "password"}}
	for name, tt := range map[string]struct {
		in        func(*pushTemplateInput)
		change    func(*spec)
		wantError string
	}{
		"the whole source": {func(in *pushTemplateInput) { in.VersionName, in.Message = "v2", "second" }, func(s *spec) {
			s.Files, s.VersionName, s.VersionMessage = pushed().Files, "v2", "second"
		}, ""},
		"under no name that was used": {func(*pushTemplateInput) {}, func(s *spec) { s.Files, s.VersionName, s.VersionMessage = pushed().Files, "", "" }, ""},
		"variables alone": {func(in *pushTemplateInput) {
			in.Files, in.Variables, in.SecretVariables = nil, map[string]string{"image": "c"}, map[string]string{"password": "registry/password", "zone": "registry/password"}
		}, func(s *spec) {
			s.VersionName, s.VersionMessage = "", ""
			s.Variables = []aggregationv1alpha1.TemplateVariable{{Name: "image", Value: "c"}, {Name: "zone", ValueFrom: secret}, {Name: "password", ValueFrom: secret}}
		}, ""},
		"once more what failed": {func(in *pushTemplateInput) { in.Files, in.VersionName = nil, "v1-again" }, func(s *spec) { s.VersionName, s.VersionMessage = "v1-again", "" }, ""},
		"the same source":       {func(in *pushTemplateInput) { in.Files, in.Message = before().Files, "other words" }, nil, ""},
		"the same in all": {func(in *pushTemplateInput) {
			in.Files, in.VersionName, in.Variables = before().Files, "v1", map[string]string{"zone": "b"}
		}, nil, ""},
		"unasked": {func(in *pushTemplateInput) { in.Confirm = "" }, nil, "nothing was done yet: ask the user"},
		"a file as it was read": {func(in *pushTemplateInput) { in.Files = map[string]string{"main.tf": "password = \"[redacted]\""} }, nil,
			`file "main.tf" contains [redacted]`},
		"a variable as it was read": {func(in *pushTemplateInput) { in.Variables = map[string]string{"image": "[redacted]"} }, nil,
			`the value of variable "image" contains [redacted]`},
		"nothing": {func(in *pushTemplateInput) { in.Files = nil }, nil, "give files, removeFiles, variables, or a new versionName"},
		"a variable twice": {func(in *pushTemplateInput) {
			in.Variables, in.SecretVariables = map[string]string{"a": "b"}, map[string]string{"a": "s/k"}
		}, nil, `variable "a" is in variables and in secretVariables`},
		"no key of a Secret": {func(in *pushTemplateInput) { in.SecretVariables = map[string]string{"a": "registry"} }, nil, `secretVariables["a"] must be`},
		"no namespace":       {func(in *pushTemplateInput) { in.Namespace = "" }, nil, "namespace is required"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := dockerTemplate()
			tmpl.Spec = before()
			kube := fakeKube(t, interceptor.Funcs{}, nil, tmpl)
			in := pushed()
			tt.in(&in)
			out, err := pushTemplate(t.Context(), &toolset.Call{Kube: kube}, in)
			want := before()
			if tt.change != nil {
				tt.change(&want)
			}
			wantEqual(t, want, served(t, kube, dockerName, &aggregationv1alpha1.CoderTemplate{}).Spec)
			if tt.wantError != "" {
				wantError(t, err, tt.wantError)
				return
			}
			changed := tt.change != nil
			if err != nil || out.Updated != changed || changed == (out.Message != "") || out.Template.ActiveVersion != "v1" {
				t.Errorf("the answer is %+v, %v", out, err)
			}
		})
	}
}

func TestPushTemplateQuestion(t *testing.T) {
	tmpl := dockerTemplate()
	tmpl.Spec.Files = map[string]string{"main.tf": "a", "old.tf": "", "same.tf": "x [redacted]"}
	in := pushTemplateInput{
		Files:     map[string]string{"main.tf": "four", "new.tf": "", "same.tf": "x [redacted]"},
		Variables: map[string]string{"image": "a"}, SecretVariables: map[string]string{"password": "registry/key"},
	}
	wantEqual(t, nil, in.refuseRedacted(tmpl.Spec.Files))
	wantEqual(t, "Push a new version of template coder.docker? It takes the place of version v1 as soon as it is built. It changes main.tf (4 bytes), "+
		"adds new.tf (0 bytes), removes old.tf, sets variable image, sets variable password from Secret registry/key.", in.question(tmpl))
	for i := range 30 {
		in.Files[fmt.Sprintf("%02d", i)] = ""
	}
	if got := in.question(tmpl); !strings.HasSuffix(got, "adds 19 (0 bytes), and 15 more.") {
		t.Errorf("the question is %s", got)
	}
	tmpl.Spec.Files, in = nil, pushTemplateInput{Files: map[string]string{"main.tf": ""}}
	tmpl.Status.Source = &aggregationv1alpha1.TemplateSource{FileCount: 300, SizeBytes: 3 << 20}
	if got := in.question(tmpl); !strings.HasSuffix(got, " It replaces the whole source (300 files, 3145728 bytes), adds main.tf (0 bytes).") {
		t.Errorf("the question is %s", got)
	}
	tmpl.Spec.Activation = aggregationv1alpha1.ActivationManual
	if got := in.question(tmpl); !strings.Contains(got, " It takes the place of version v1 only when it is promoted.") {
		t.Errorf("with Manual the question is %q", got)
	}
	tmpl.Spec.Activation = aggregationv1alpha1.ActivationAfterTest
	if got := in.question(tmpl); !strings.Contains(got, " version v1 when its tests have succeeded.") {
		t.Errorf("with AfterTest the question is %q", got)
	}
}

func TestPushTemplateMakesANewOneOnlyWhenToldTo(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{}, nil)
	in := pushed()
	in.Confirm = ""
	_, err := pushTemplate(t.Context(), &toolset.Call{Kube: kube}, in)
	wantError(t, err, "there is no template coder.docker in namespace coder: set create to create it")
	in.Create = true
	if out, err := pushTemplate(t.Context(), &toolset.Call{Kube: kube}, in); err != nil || !out.Updated || out.Template.Name != dockerName {
		t.Errorf("the answer is %+v, %v", out, err)
	}
	wantEqual(t, pushed().Files, served(t, kube, dockerName, &aggregationv1alpha1.CoderTemplate{}).Spec.Files)
}

func TestPushTemplateTriesOnly(t *testing.T) {
	in := pushed()
	in.Confirm, in.DryRun, in.Wait, in.Create = "", true, true, true
	for name, objects := range map[string][]client.Object{"an existing one": {dockerTemplate()}, "a new one": nil} {
		out, err := pushTemplate(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil, objects...)}, in)
		if err != nil || out.Updated || !strings.HasPrefix(out.Message, wouldBeAccepted("")) {
			t.Errorf("%s: the answer is %+v, %v", name, out, err)
		}
	}
}

func TestPushTemplateAgainWhereSomebodyElseWrote(t *testing.T) {
	other := func(obj client.Object) { obj.(*aggregationv1alpha1.CoderTemplate).Spec.Icon = "/icon/new.png" }
	kube := fakeKube(t, failingUpdates(other, conflict("codertemplates")), nil, dockerTemplate())
	if out, err := pushTemplate(t.Context(), &toolset.Call{Kube: kube}, pushed()); err != nil || !out.Updated {
		t.Fatalf("the answer is %+v, %v", out, err)
	}
	spec := served(t, kube, dockerName, &aggregationv1alpha1.CoderTemplate{}).Spec
	if spec.Icon != "/icon/new.png" || spec.Files["main.tf"] != "# after" {
		t.Errorf("the spec is %+v", spec)
	}
}

func TestPushTemplateSaysWhatIsWrong(t *testing.T) {
	refused := apierrors.NewInvalid(aggregationv1alpha1.GroupVersion.WithKind("CoderTemplate").GroupKind(), dockerName, field.ErrorList{
		field.Invalid(field.NewPath("spec", "files").Key("../x"), field.OmitValueType{}, "must be a path inside the template"),
		field.Forbidden(field.NewPath("spec", "variables").Index(0).Child("valueFrom", "secretKeyRef", "name"), "user alice may not get Secret registry in namespace coder"),
	})
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, failingUpdates(nil, refused), nil, dockerTemplate())})
	answer, isError := s.say(t, "push_template", map[string]any{
		"namespace": "coder", "name": dockerName, "files": map[string]any{"../x": "text"}, "confirm": dockerName,
	})
	want := `cannot update codertemplates.aggregation.coder.com coder/coder.docker: spec.files[../x]: Invalid value: must be a path inside the template; ` +
		`spec.variables[0].valueFrom.secretKeyRef.name: Forbidden: user alice may not get Secret registry in namespace coder`
	if !isError || answer != want {
		t.Errorf("the answer is %s\nwant %s", answer, want)
	}
}

// building sets the status of a version that is being built when the template is written.
func building(s *steps) interceptor.Funcs {
	return interceptor.Funcs{Watch: s.watch, Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
		if err := c.Update(ctx, obj, opts...); err != nil {
			return err
		}
		tmpl := obj.(*aggregationv1alpha1.CoderTemplate)
		// The newest version is another one, which somebody pushed in Coder.
		tmpl.Status.LatestVersionID, tmpl.Status.LatestVersionName, tmpl.Status.Source.VersionID = "33333333-3333-4333-8333-333333333333", "v3", newID
		versionState(metav1.ConditionFalse, metav1.ConditionFalse, `version "v2" waits for a provisioner`)(tmpl)
		return c.Status().Update(ctx, tmpl)
	}}
}

func TestPushTemplateWaitsUntilTheVersionIsActive(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	api := &steps{t: t, clock: clk, after: []func(client.Object){
		versionState(metav1.ConditionFalse, metav1.ConditionFalse, `version "v2" is being built`),
		func(obj client.Object) {
			obj.(*aggregationv1alpha1.CoderTemplate).Status.ActiveVersionName = "v2"
			versionState(metav1.ConditionTrue, metav1.ConditionFalse, `version "v2" is active`)(obj)
		},
	}}
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, building(api), nil, dockerTemplate()), Clock: clk})
	answer, isError := s.say(t, "push_template", map[string]any{
		"namespace": "coder", "name": dockerName, "files": map[string]any{"main.tf": "# after"}, "confirm": dockerName, "wait": true,
	})
	if isError || !strings.Contains(answer, `"activeVersion":"v2"`) || !strings.Contains(answer, `"updated":true`) {
		t.Errorf("the answer is %s", answer)
	}
	s.wantProgress(t, `version "v2" waits for a provisioner`, `version "v2" is being built`)
}

func TestPushTemplateSaysWhyTheBuildFailed(t *testing.T) {
	failure := versionState(metav1.ConditionFalse, metav1.ConditionTrue, `building version "v2" failed: no provider`)
	in := pushed()
	in.Wait, in.TimeoutSeconds = true, 10
	for name, tt := range map[string]struct {
		raw  rawTexts
		want string
	}{
		"with the end of its log":        {rawTexts{templatePath + "/log?version=" + newID: strings.Repeat("line\n", 100) + "no provider\n"}, strings.Repeat("line\n", failedBuildLogLines-1) + "no provider\n"},
		"and nothing more without a log": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := &steps{t: t, after: []func(client.Object){failure}}
			out, err := pushTemplate(t.Context(), &toolset.Call{Kube: fakeKube(t, building(api), tt.raw, dockerTemplate())}, in)
			wantError(t, err, `building version "v2" failed: no provider; get_build_logs shows the whole log`)
			if out.Message != `building version "v2" failed: no provider` || out.Logs != tt.want || !out.Updated {
				t.Errorf("the answer is %+v, %v", out, err)
			}
		})
	}
}

func TestPushTemplateSaysThatItVanished(t *testing.T) {
	in := pushed()
	in.Wait, in.TimeoutSeconds = true, 10
	api := &steps{t: t, after: []func(client.Object){nil}}
	_, err := pushTemplate(t.Context(), &toolset.Call{Kube: fakeKube(t, building(api), nil, dockerTemplate())}, in)
	wantError(t, err, "template coder.docker was deleted in the meantime")
}

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

func TestPromoteTemplateVersionNamesBothVersions(t *testing.T) {
	for name, tt := range map[string]struct {
		versions []client.Object
		want     string
	}{
		"by their names":                     {templateVersions(), `Make version "v2" (` + newID + `) the active one of template coder.docker, in place of version "v1", which is active now?`},
		"as far as the caller may read them": {nil, `Make version ` + newID + ` the active one of template coder.docker, in place of version "v1", which is active now?`},
	} {
		got := promotionQuestion(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, tt.versions...)}, dockerTemplate(), newID)
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: the question is %s", name, got)
		}
	}
}

func TestPromoteTemplateVersionTriesOnly(t *testing.T) {
	in := promoteTemplateVersionInput{Namespace: "coder", Name: dockerName, VersionID: newID, DryRun: true}
	out, err := promoteTemplateVersion(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil, dockerTemplate())}, in)
	if err != nil || out.Updated || !strings.HasPrefix(out.Message, wouldBeAccepted("")) {
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
	err = updateTemplate(t.Context(), &toolset.Call{Kube: kube}, tmpl, false, "", "", func(spec *aggregationv1alpha1.CoderTemplateSpec) bool {
		spec.VersionID = newID
		return true
	})
	if err != nil || tmpl.Status.LatestVersionError != "" || tmpl.Spec.Icon != "" {
		t.Errorf("%v: %+v", err, tmpl)
	}
}
