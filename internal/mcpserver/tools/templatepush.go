package tools

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// Size of the log excerpt that is returned if a build failed.
const (
	failedBuildLogLines = 50
	failedBuildLogBytes = 8 << 10
)

type pushTemplateInput struct {
	Namespace       string            `json:"namespace"`
	Name            string            `json:"name"`
	Files           map[string]string `json:"files,omitempty" jsonschema:"text by path; the whole source, unless keepFiles; a call may have 1 MiB"`
	KeepFiles       bool              `json:"keepFiles,omitempty" jsonschema:"keep the files that are not in files"`
	RemoveFiles     []string          `json:"removeFiles,omitempty" jsonschema:"paths to remove; keeps the others"`
	Variables       map[string]string `json:"variables,omitempty" jsonschema:"Terraform variables by name; not for secrets"`
	SecretVariables map[string]string `json:"secretVariables,omitempty" jsonschema:"as SECRET/KEY"`
	VersionName     string            `json:"versionName,omitempty" jsonschema:"unique name of the version; generated if omitted"`
	Message         string            `json:"message,omitempty" jsonschema:"what changed, for people"`
	Create          bool              `json:"create,omitempty" jsonschema:"create the template if it does not exist"`
	DryRun          bool              `json:"dryRun,omitempty"`
	Wait            bool              `json:"wait,omitempty"`
	TimeoutSeconds  int               `json:"timeoutSeconds,omitempty"`
	Confirm         string            `json:"confirm,omitempty"`
}

// pushTemplateOutput is the template after the push. Logs is the end of the build log if
// the build of the version failed.
type pushTemplateOutput struct {
	Template template `json:"template"`
	Updated  bool     `json:"updated"`
	Message  string   `json:"message,omitempty"`
	Logs     string   `json:"logs,omitempty"`
}

func pushTemplate(ctx context.Context, call *toolset.Call, in pushTemplateInput) (pushTemplateOutput, error) {
	if err := in.validate(); err != nil {
		return pushTemplateOutput{}, err
	}
	tmpl, err := readTemplate(ctx, call.Kube, in.Namespace, in.Name)
	if err == nil {
		err = in.checkFiles(tmpl)
	}
	out := pushTemplateOutput{}
	switch {
	case apierrors.IsNotFound(err) && !in.Create:
		return out, toolset.UsageError(fmt.Sprintf("there is no template %s in namespace %s: set create to create it, or list the templates to see which exist", in.Name, in.Namespace))
	case apierrors.IsNotFound(err):
		tmpl, err = in.create(ctx, call)
		out.Updated = !in.DryRun
	case err != nil:
		return out, err
	case !in.changes(tmpl.Spec):
		out.Message = "the template already has this source; nothing was changed. To retry a failed build, give another versionName"
	default:
		err = in.update(ctx, call, tmpl)
		out.Updated = !in.DryRun
	}
	if err != nil {
		return pushTemplateOutput{}, err
	}
	if in.DryRun && out.Message == "" {
		out.Message = wouldBeAccepted("whether the version can be built")
	}
	if in.Wait && !in.DryRun {
		deleted := fmt.Sprintf("template %s was deleted in the meantime; list_templates shows which exist", tmpl.Name)
		timeout := time.Duration(in.TimeoutSeconds) * time.Second
		err = await(ctx, call, tmpl, timeout, deleted, func() (done bool, problem, message string) {
			conditions := tmpl.Status.Conditions
			if stalled := stalledMessage(conditions); stalled != "" {
				problem = stalled + "; get_build_logs shows the whole log"
			}
			if tmpl.DeletionTimestamp != nil {
				problem = deleted
			}
			return problem == "" && meta.IsStatusConditionTrue(conditions, aggregationv1alpha1.ConditionReady), problem, progressMessage(conditions)
		})
	}
	out.Template = describeTemplate(tmpl)
	if !in.DryRun {
		out.explain(ctx, call, tmpl)
	}
	return out, err
}

func (in pushTemplateInput) validate() error {
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return err
	}
	if len(in.Files)+len(in.RemoveFiles)+len(in.Variables)+len(in.SecretVariables) == 0 && in.VersionName == "" {
		return toolset.UsageError("give files, removeFiles, variables, or a new versionName to retry a failed build")
	}
	for _, name := range slices.Sorted(maps.Keys(in.SecretVariables)) {
		secret, key, _ := strings.Cut(in.SecretVariables[name], "/")
		if _, twice := in.Variables[name]; twice {
			return toolset.UsageError(fmt.Sprintf("variable %q is in variables and in secretVariables: give it once", name))
		}
		if secret == "" || key == "" {
			return toolset.UsageError(fmt.Sprintf("secretVariables[%q] must be the name of a Secret in the namespace and a key of it, as SECRET/KEY", name))
		}
	}
	return nil
}

// refuseRedacted returns an error if a file or variable would get the text that replaces a secret
// in everything that clients read. before are the present files.
func (in pushTemplateInput) refuseRedacted(before map[string]string) error {
	for _, path := range slices.Sorted(maps.Keys(in.Files)) {
		if strings.Count(in.Files[path], redaction.Placeholder) > strings.Count(before[path], redaction.Placeholder) {
			return toolset.UsageError(fmt.Sprintf("file %q contains %s, which replaces a secret in what you read and is not in the source: "+
				"give the real text, or use a variable and secretVariables", path, redaction.Placeholder))
		}
	}
	return refuseRedactedValues("variable", in.Variables)
}

// refuseRedactedValues returns an error if a value contains the text that replaces a secret in
// everything that clients read. kind is what the values are.
func refuseRedactedValues(kind string, values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if strings.Contains(values[name], redaction.Placeholder) {
			return toolset.UsageError(fmt.Sprintf("the value of %s %q contains %s, which replaces a secret in what you read: "+
				"give the real value, or leave the %s out", kind, name, redaction.Placeholder, kind))
		}
	}
	return nil
}

// changes reports whether the arguments result in a new version.
func (in pushTemplateInput) changes(spec aggregationv1alpha1.CoderTemplateSpec) bool {
	wanted := *spec.DeepCopy()
	in.apply(&wanted)
	return !maps.Equal(wanted.Files, spec.Files) || !equality.Semantic.DeepEqual(wanted.Variables, spec.Variables) ||
		in.VersionName != "" && in.VersionName != spec.VersionName
}

// apply sets the arguments in a spec. A version name can be used only once, so a previous
// one is overwritten even if the new one is empty.
func (in pushTemplateInput) apply(spec *aggregationv1alpha1.CoderTemplateSpec) {
	spec.Files = in.source(spec.Files)
	spec.VersionName, spec.VersionMessage = in.VersionName, in.Message
	for _, name := range slices.Sorted(maps.Keys(in.Variables)) {
		setVariable(spec, aggregationv1alpha1.TemplateVariable{Name: name, Value: in.Variables[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(in.SecretVariables)) {
		secret, key, _ := strings.Cut(in.SecretVariables[name], "/")
		setVariable(spec, aggregationv1alpha1.TemplateVariable{Name: name, ValueFrom: &aggregationv1alpha1.TemplateVariableSource{
			SecretKeyRef: &aggregationv1alpha1.SecretKeySelector{Name: secret, Key: key},
		}})
	}
}

func setVariable(spec *aggregationv1alpha1.CoderTemplateSpec, variable aggregationv1alpha1.TemplateVariable) {
	spec.Variables = replaceOrAppend(spec.Variables, variable, func(v aggregationv1alpha1.TemplateVariable) bool { return v.Name == variable.Name })
}

// create creates the template. It needs no confirmation, because it replaces nothing.
func (in pushTemplateInput) create(ctx context.Context, call *toolset.Call) (*aggregationv1alpha1.CoderTemplate, error) {
	if err := in.refuseRedacted(nil); err != nil {
		return nil, err
	}
	tmpl := &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: in.Name}}
	if err := in.checkFiles(tmpl); err != nil {
		return nil, err
	}
	in.apply(&tmpl.Spec)
	if err := call.Kube.Create(ctx, tmpl, &client.CreateOptions{DryRun: dryRun(in.DryRun)}); err != nil {
		return nil, callError("create", templateResource, in.Namespace, in.Name, err)
	}
	return tmpl, nil
}

func (in pushTemplateInput) update(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate) error {
	if err := in.refuseRedacted(tmpl.Spec.Files); err != nil {
		return err
	}
	shown, lost := len(tmpl.Spec.Files) > 0, false
	err := updateTemplate(ctx, call, tmpl, in.DryRun, in.Confirm, in.question(tmpl), func(spec *aggregationv1alpha1.CoderTemplateSpec) bool {
		// Another client may have pushed a source that the API does not show.
		lost = in.keepsFiles() && shown && len(spec.Files) == 0
		if lost || !in.changes(*spec) {
			return false
		}
		in.apply(spec)
		return true
	})
	if err == nil && lost {
		return toolset.Refuse(toolset.OutcomeConflict, fmt.Sprintf(
			"another client replaced the source of template %s in the meantime, and the API does not show it: look at it with get_template", tmpl.Name))
	}
	return err
}

const mostChanges = 20

func (in pushTemplateInput) question(tmpl *aggregationv1alpha1.CoderTemplate) string {
	wanted, before := tmpl.Spec.DeepCopy(), tmpl.Spec.Files
	in.apply(wanted)
	all := maps.Clone(wanted.Files)
	maps.Copy(all, before)
	var changes []string
	if source := tmpl.Status.Source; len(before) == 0 && len(in.Files) > 0 && source != nil {
		// The API does not show the files of a source that is too large.
		changes = append(changes, fmt.Sprintf("replaces the whole source (%d files, %d bytes)", source.FileCount, source.SizeBytes))
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		text, kept := wanted.Files[path]
		old, known := before[path]
		switch {
		case !kept:
			changes = append(changes, "removes "+path)
		case !known:
			changes = append(changes, fmt.Sprintf("adds %s (%d bytes)", path, len(text)))
		case old != text:
			changes = append(changes, fmt.Sprintf("changes %s (%d bytes)", path, len(text)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Variables)) {
		changes = append(changes, "sets variable "+name)
	}
	for _, name := range slices.Sorted(maps.Keys(in.SecretVariables)) {
		changes = append(changes, fmt.Sprintf("sets variable %s from Secret %s", name, in.SecretVariables[name]))
	}
	if more := len(changes) - mostChanges; more > 0 {
		changes = append(changes[:mostChanges], fmt.Sprintf("and %d more", more))
	}
	when := "as soon as it is built"
	switch tmpl.Spec.Activation {
	case aggregationv1alpha1.ActivationManual:
		when = "only when it is promoted"
	case aggregationv1alpha1.ActivationAfterTest:
		when = "when its tests have succeeded"
	}
	question := fmt.Sprintf("Push a new version of template %s? It takes the place of version %s %s.", tmpl.Name, tmpl.Status.ActiveVersionName, when)
	if len(changes) > 0 {
		question += " It " + strings.Join(changes, ", ") + "."
	}
	return question
}

// updateTemplate applies change to the spec of the template, after the user confirmed it. It
// does not write if change returns false.
func updateTemplate(
	ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate, dryRun bool, confirm, question string,
	change func(*aggregationv1alpha1.CoderTemplateSpec) bool,
) error {
	return confirmed(ctx, call, tmpl, dryRun, confirm, question, func(tmpl *aggregationv1alpha1.CoderTemplate, only bool) error {
		return updateSpec(ctx, call, templateResource, tmpl, only, func() bool { return change(&tmpl.Spec) })
	})
}

// explain adds the error and the end of the build log if the build failed. If the caller
// may not read the log, it adds only the error.
func (out *pushTemplateOutput) explain(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate) {
	stalled := stalledMessage(tmpl.Status.Conditions)
	if stalled == "" {
		return
	}
	out.Message = stalled
	version := tmpl.Status.LatestVersionID
	if source := tmpl.Status.Source; source != nil && source.VersionID != "" {
		// Prefer the version of this push: somebody else may have pushed a newer one.
		version = source.VersionID
	}
	if logs, _, err := templateLog(tmpl.Namespace, tmpl.Name, version).Tail(ctx, call.Kube, failedBuildLogLines, failedBuildLogBytes); err == nil {
		out.Logs = logs
	}
}

type promoteTemplateVersionInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	VersionID string `json:"versionID" jsonschema:"id of the version, as get_template shows it"`
	DryRun    bool   `json:"dryRun,omitempty"`
	Confirm   string `json:"confirm,omitempty"`
}

// promoteTemplateVersion does not wait: the version is active when the API responds.
func promoteTemplateVersion(ctx context.Context, call *toolset.Call, in promoteTemplateVersionInput) (templateResult, error) {
	tmpl, err := readTemplate(ctx, call.Kube, in.Namespace, in.Name)
	version := strings.ToLower(in.VersionID)
	switch {
	case err != nil:
		return templateResult{}, err
	case version == "":
		return templateResult{}, toolset.UsageError("versionID is required: get_template shows the versions with their ids")
	case tmpl.Status.ActiveVersionID == version:
		return templateResult{Template: describeTemplate(tmpl), Message: "this version is active already; nothing was changed"}, nil
	}
	question := ""
	if !in.DryRun {
		question = promotionQuestion(ctx, call, tmpl, version)
	}
	err = updateTemplate(ctx, call, tmpl, in.DryRun, in.Confirm, question, func(spec *aggregationv1alpha1.CoderTemplateSpec) bool {
		spec.VersionID = version
		return true
	})
	if err != nil {
		return templateResult{}, err
	}
	out := templateResult{Template: describeTemplate(tmpl), Updated: !in.DryRun}
	if in.DryRun {
		out.Message = wouldBeAccepted("whether workspaces can be built from the version")
	}
	return out, nil
}

// promotionQuestion returns the question to confirm a promotion. It names the versions, if the
// caller may read them.
func promotionQuestion(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate, id string) string {
	name := "version " + id
	if v, err := findTemplateVersion(ctx, call, tmpl.Namespace, tmpl.Name, id); err == nil && v.VersionName != "" {
		name = fmt.Sprintf("version %q (%s)", toolset.CleanText(v.VersionName), id)
	}
	return fmt.Sprintf("Make %s the active one of template %s, in place of version %q, which is active now? Workspaces are built from it from now on.",
		name, tmpl.Name, tmpl.Status.ActiveVersionName)
}

// matchesFile reports whether the pattern is the path of a file, or matches the path or its
// last element. An invalid pattern matches only a file of this name.
func matchesFile(pattern, file string) bool {
	whole, _ := path.Match(pattern, file)
	last, _ := path.Match(pattern, path.Base(file))
	return whole || last || pattern == file
}

// hidesFiles reports whether the template has files that the API does not serve in the object.
func hidesFiles(tmpl *aggregationv1alpha1.CoderTemplate) bool {
	return len(tmpl.Spec.Files) == 0 && tmpl.Status.Source != nil && tmpl.Status.Source.FileCount > 0
}

// keepsFiles reports whether files that the call does not name stay in the template.
func (in pushTemplateInput) keepsFiles() bool { return in.KeepFiles || len(in.RemoveFiles) > 0 }

func (in pushTemplateInput) source(before map[string]string) map[string]string {
	switch {
	case len(in.Files)+len(in.RemoveFiles) == 0:
		return before
	case !in.keepsFiles():
		return in.Files
	}
	after := maps.Clone(in.Files)
	if after == nil {
		after = map[string]string{}
	}
	for name, text := range before {
		if _, changed := in.Files[name]; !changed && !slices.Contains(in.RemoveFiles, name) {
			after[name] = text
		}
	}
	return after
}

// checkFiles returns an error if files cannot be kept or removed.
func (in pushTemplateInput) checkFiles(tmpl *aggregationv1alpha1.CoderTemplate) error {
	if in.keepsFiles() && len(in.Files)+len(in.RemoveFiles) > 0 && hidesFiles(tmpl) {
		return toolset.UsageError(fmt.Sprintf("the API does not serve the files of template %s (condition FilesAvailable says why), so the others cannot be kept: "+
			"give the whole source in files, without keepFiles and removeFiles", tmpl.Name))
	}
	for _, name := range in.RemoveFiles {
		if _, known := tmpl.Spec.Files[name]; !known {
			return toolset.UsageError(fmt.Sprintf("template %s has no file %q to remove: get_template lists its files", tmpl.Name, name))
		}
		if _, given := in.Files[name]; given {
			return toolset.UsageError(fmt.Sprintf("file %q is in files and in removeFiles: give it once", name))
		}
	}
	if len(in.RemoveFiles) > 0 && len(in.source(tmpl.Spec.Files)) == 0 {
		return toolset.UsageError(fmt.Sprintf("template %s would have no file left: give at least one in files", tmpl.Name))
	}
	return nil
}
