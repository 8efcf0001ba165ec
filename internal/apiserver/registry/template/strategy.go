package template

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

var (
	specPath        = field.NewPath("spec")
	namePath        = field.NewPath("metadata", "name")
	versionPath     = specPath.Child("versionID")
	versionNamePath = specPath.Child("versionName")
	filesPath       = specPath.Child("files")
	variablesPath   = specPath.Child("variables")
)

// strategy implements defaulting and validation of templates.
type strategy struct {
	registry.Strategy
	secrets registry.Secrets
}

// PrepareForCreate clears the fields that only the server sets, and sets defaults.
func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	tmpl := obj.(object)
	tmpl.Status = aggregationv1alpha1.CoderTemplateStatus{}
	tmpl.Generation = 1
	if name, err := metadata.ParseTemplateName(tmpl.Name); err == nil && tmpl.Spec.Organization == "" {
		tmpl.Spec.Organization = name.Organization
	}
	tmpl.Spec.VersionID = registry.CanonicalID(tmpl.Spec.VersionID)
}

// PrepareForUpdate restores the status, and keeps the current value of unset fields that Coder
// stores: another client may manage them.
func (strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	tmpl, current := obj.(object), old.(object)
	tmpl.Status = *current.Status.DeepCopy()
	if replaced, ok := ctx.Value(replacementKey{}).(*aggregationv1alpha1.TemplateSource); ok {
		tmpl.Status.Source = replaced.DeepCopy()
		tmpl.Spec.Files = current.Spec.Files
	}
	registry.KeepLabels(tmpl, current.Labels)
	if registry.SameOrganization(tmpl.Spec.Organization, current.Spec.Organization) {
		tmpl.Spec.Organization = current.Spec.Organization
	}
	tmpl.Spec.VersionID = registry.CanonicalID(tmpl.Spec.VersionID)
	spec, was := &tmpl.Spec, current.Spec
	if len(spec.Files) == 0 {
		spec.Files = was.Files
	}
	spec.VersionID = cmp.Or(spec.VersionID, was.VersionID)
	spec.DisplayName = cmp.Or(spec.DisplayName, was.DisplayName)
	spec.Description = cmp.Or(spec.Description, was.Description)
	spec.Icon = cmp.Or(spec.Icon, was.Icon)
	spec.CORSBehavior = cmp.Or(spec.CORSBehavior, was.CORSBehavior)
	spec.DefaultTTLMillis = cmp.Or(spec.DefaultTTLMillis, was.DefaultTTLMillis)
	spec.ActivityBumpMillis = cmp.Or(spec.ActivityBumpMillis, was.ActivityBumpMillis)
	spec.AllowUserCancelWorkspaceJobs = cmp.Or(spec.AllowUserCancelWorkspaceJobs, was.AllowUserCancelWorkspaceJobs)
	spec.UseClassicParameterFlow = cmp.Or(spec.UseClassicParameterFlow, was.UseClassicParameterFlow)
	tmpl.Generation = current.Generation
	if !equality.Semantic.DeepEqual(tmpl.Spec, current.Spec) || !sameSource(current, tmpl) {
		tmpl.Generation++
	}
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	tmpl := obj.(object)
	name, err := metadata.ParseTemplateName(tmpl.Name)
	if err != nil {
		return field.ErrorList{field.Invalid(namePath, tmpl.Name, err.Error())}
	}
	spec := tmpl.Spec
	errs := registry.ValidateNew("template", tmpl.Name, name, spec.Organization)
	switch {
	case len(spec.Files) > 0 && spec.VersionID != "":
		errs = append(errs, field.Invalid(versionPath, spec.VersionID, "must be empty if spec.files is set: a new version is created from the files"))
	case len(spec.Files) > 0:
		errs = append(errs, validateFiles(spec.Files)...)
	case spec.VersionID == "":
		errs = append(errs, field.Required(filesPath, "set the source of the template here, or an existing version in spec.versionID"))
	default:
		errs = append(errs, validateVersionID(spec.VersionID)...)
		for path, set := range map[*field.Path]bool{
			variablesPath: len(spec.Variables) > 0, specPath.Child("provisionerTags"): len(spec.ProvisionerTags) > 0,
		} {
			if set {
				errs = append(errs, field.Forbidden(path, "applies only to a version that is created from spec.files, but spec.versionID names an existing version"))
			}
		}
	}
	if errs = append(errs, validateSpec(spec, aggregationv1alpha1.CoderTemplateSpec{})...); len(errs) > 0 {
		return errs
	}
	return s.validateSecrets(ctx, tmpl)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy) ValidateUpdate(ctx context.Context, obj, was runtime.Object) field.ErrorList {
	tmpl, old := obj.(object), was.(object)
	content, newFiles := changesContent(tmpl, old), !maps.Equal(tmpl.Spec.Files, old.Spec.Files)
	var errs field.ErrorList
	if wanted, first := tmpl.Spec.Organization, old.Spec.Organization; wanted != first {
		problem := fmt.Sprintf("cannot change from %q", first)
		if wanted == old.Status.OrganizationName {
			problem = registry.KeepsFirstName(first)
		}
		errs = append(errs, field.Invalid(specPath.Child("organization"), wanted, problem))
	}
	if tmpl.Spec.VersionID != old.Spec.VersionID {
		errs = append(errs, validateVersionID(tmpl.Spec.VersionID)...)
		if content && !manual(tmpl) {
			errs = append(errs, field.Invalid(versionPath, tmpl.Spec.VersionID,
				"cannot change together with spec.files, spec.variables or spec.provisionerTags, which create a new version, unless spec.activation is Manual or AfterTest"))
		}
	} else if newFiles && !manual(tmpl) &&
		(slices.ContainsFunc(tmpl.ManagedFields, appliesFilesAndVersion) || lastAppliedFilesAndVersion(tmpl, old)) {
		// Without this check, each apply of this manifest would make the other of the two active.
		errs = append(errs, field.Invalid(versionPath, tmpl.Spec.VersionID,
			"is set in the same applied manifest as other spec.files: remove spec.files to pin this version, remove spec.versionID to create a version from the files, or set spec.activation to Manual or AfterTest to have both"))
	}
	if newFiles {
		errs = append(errs, validateFiles(tmpl.Spec.Files)...)
	}
	errs = append(errs, validateSpec(tmpl.Spec, old.Spec)...)
	if len(errs) > 0 || !content {
		return errs
	}
	return s.validateSecrets(ctx, tmpl)
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return sensitiveValues(obj.(object).Spec)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	tmpl := obj.(object)
	if !changesContent(tmpl, old.(object)) {
		return nil
	}
	return sensitiveValues(tmpl.Spec)
}

// validateSecrets checks whether the user has permission to get the Secrets that the new version
// uses. A user who changes only the files needs it too, because files can print the value of a
// variable.
func (s strategy) validateSecrets(ctx context.Context, tmpl object) field.ErrorList {
	var errs field.ErrorList
	for i, v := range tmpl.Spec.Variables {
		ref := secretOf(v)
		if ref == nil {
			continue
		}
		path := variablesPath.Index(i).Child("valueFrom", "secretKeyRef", "name")
		if problem := s.secrets.Check(ctx, tmpl.Namespace, ref.Name, path); problem != nil {
			errs = append(errs, problem)
		}
	}
	return errs
}

// maxMillis is the longest time in milliseconds. Coder computes with nanoseconds, and would take a longer time for a
// negative one.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// validateSpec validates the fields that new and existing templates share. Texts that were set in Coder are not
// validated again.
func validateSpec(spec, old aggregationv1alpha1.CoderTemplateSpec) field.ErrorList {
	var errs field.ErrorList
	for name, value := range map[string]*int64{"defaultTTLMillis": spec.DefaultTTLMillis, "activityBumpMillis": spec.ActivityBumpMillis} {
		if value != nil && (*value < 0 || *value > maxMillis) {
			errs = append(errs, field.Invalid(specPath.Child(name), *value, fmt.Sprintf("must be 0 or more, and at most %d", maxMillis)))
		}
	}
	if limit := spec.FailedVersionsHistoryLimit; limit != nil && *limit < 0 {
		errs = append(errs, field.Invalid(specPath.Child("failedVersionsHistoryLimit"), *limit, "must be 0 or more"))
	}
	if !slices.Contains([]string{"", "simple", "passthru"}, spec.CORSBehavior) {
		errs = append(errs, field.NotSupported(specPath.Child("corsBehavior"), spec.CORSBehavior, []string{"simple", "passthru"}))
	}
	activations := []string{aggregationv1alpha1.ActivationAutomatic, aggregationv1alpha1.ActivationManual, aggregationv1alpha1.ActivationAfterTest}
	if spec.Activation != "" && !slices.Contains(activations, spec.Activation) {
		errs = append(errs, field.NotSupported(specPath.Child("activation"), spec.Activation, activations))
	}
	errs = append(errs, validateTests(spec)...)
	description := coderd.MaxDescription
	if old.VersionID == "" {
		description = coderd.MaxNewDescription
	}
	errs = append(errs, registry.ValidateChanged(specPath.Child("displayName"), spec.DisplayName, old.DisplayName, coderd.CheckDisplayName)...)
	errs = append(errs, registry.ValidateChanged(versionNamePath, spec.VersionName, old.VersionName, coderd.CheckVersionName)...)
	errs = append(errs, registry.ValidateText(specPath.Child("description"), spec.Description, old.Description, description)...)
	errs = append(errs, registry.ValidateText(specPath.Child("icon"), spec.Icon, old.Icon, coderd.MaxIcon)...)
	errs = append(errs, registry.ValidateText(specPath.Child("versionMessage"), spec.VersionMessage, old.VersionMessage, coderd.MaxVersionMessage)...)
	for key := range spec.ProvisionerTags {
		if key == "" {
			errs = append(errs, field.Invalid(specPath.Child("provisionerTags"), "", "a tag must have a name"))
		}
	}
	return append(errs, validateVariables(spec.Variables)...)
}

func validateVariables(variables []aggregationv1alpha1.TemplateVariable) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, v := range variables {
		path := variablesPath.Index(i)
		switch {
		case v.Name == "":
			errs = append(errs, field.Required(path.Child("name"), "give the name of the variable"))
		case seen[v.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), v.Name))
		}
		seen[v.Name] = true
		errs = append(errs, registry.ValidateValue(path.Child("value"), v.Value)...)
		if v.ValueFrom == nil {
			continue
		}
		ref := v.ValueFrom.SecretKeyRef
		switch {
		case v.Value != "":
			errs = append(errs, field.Invalid(path.Child("value"), field.OmitValueType{}, "must be empty where valueFrom is set"))
		case ref == nil:
			errs = append(errs, field.Required(path.Child("valueFrom", "secretKeyRef"), "specify where the value is stored"))
		case ref.Key == "":
			errs = append(errs, field.Required(path.Child("valueFrom", "secretKeyRef", "key"), "give the key in the Secret"))
		default:
			for _, problem := range apivalidation.NameIsDNSSubdomain(ref.Name, false) {
				errs = append(errs, field.Invalid(path.Child("valueFrom", "secretKeyRef", "name"), ref.Name, problem))
			}
		}
	}
	return errs
}

// appliesFilesAndVersion reports whether a manager sets both fields with server-side apply. A client
// that changes the files otherwise takes this field over.
func appliesFilesAndVersion(entry metav1.ManagedFieldsEntry) bool {
	var set fieldpath.Set
	return entry.Operation == metav1.ManagedFieldsOperationApply && entry.FieldsV1 != nil &&
		set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) == nil &&
		set.Has(fieldpath.MakePathOrDie("spec", "versionID")) && set.Has(fieldpath.MakePathOrDie("spec", "files"))
}

// lastAppliedFilesAndVersion reports whether the last manifest of kubectl's client-side apply sets
// spec.versionID, and one of the files that change to its new text.
func lastAppliedFilesAndVersion(tmpl, old object) bool {
	var applied aggregationv1alpha1.CoderTemplate
	if json.Unmarshal([]byte(tmpl.Annotations[corev1.LastAppliedConfigAnnotation]), &applied) != nil || applied.Spec.VersionID == "" {
		return false
	}
	for name, text := range applied.Spec.Files {
		was, existed := old.Spec.Files[name]
		if now, exists := tmpl.Spec.Files[name]; exists && now == text && (!existed || was != text) {
			return true
		}
	}
	return false
}

func validateVersionID(id string) field.ErrorList {
	if _, err := uuid.Parse(id); err != nil {
		return field.ErrorList{field.Invalid(versionPath, id, "must be the UUID of a version")}
	}
	return nil
}

// validateFiles packs the files, which checks all limits except the size that fits into an object.
func validateFiles(files map[string]string) field.ErrorList {
	total, largest := 0, ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		total += len(files[name])
		if largest == "" || len(files[name]) > len(files[largest]) {
			largest = name
		}
	}
	_, err := coderd.PackFiles(files, nil)
	errs := filesProblems(err)
	if len(errs) == 0 && total > maxInlineBytes {
		errs = append(errs, field.Invalid(filesPath, field.OmitValueType{}, fmt.Sprintf(
			"the files have %d bytes together, and at most %d fit in an object; the largest is %q with %d bytes; send a larger source as an archive to codertemplates/files",
			total, maxInlineBytes, largest, len(files[largest]))))
	}
	return errs
}

// filesProblems converts an error of packing to field errors.
func filesProblems(err error) field.ErrorList {
	var fault *coderd.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &fault) || len(fault.Fields) == 0:
		return field.ErrorList{field.Invalid(filesPath, field.OmitValueType{}, err.Error())}
	}
	var errs field.ErrorList
	for _, f := range fault.Fields {
		path := filesPath
		if name, ok := strings.CutPrefix(f.Field, "files["); ok {
			path = filesPath.Key(strings.TrimSuffix(name, "]"))
		}
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, f.Detail))
	}
	return errs
}

var (
	variableBlock = regexp.MustCompile(`(?m)^[ \t]*variable[ \t]+"([^"]+)"[ \t]*\{`)
	// sensitiveLine matches the argument, not in a comment or a text.
	sensitiveLine = regexp.MustCompile(`(?m)^[^#"/\n]*\bsensitive[ \t]*=[ \t]*true\b`)
)

// sensitiveValues returns a warning for each variable that the files declare as sensitive and whose value is in the spec.
func sensitiveValues(spec aggregationv1alpha1.CoderTemplateSpec) []string {
	sensitive := map[string]bool{}
	for name, text := range spec.Files {
		// Terraform reads the variables of the root only.
		if !strings.HasSuffix(name, ".tf") || strings.Contains(name, "/") {
			continue
		}
		// A block ends at the latest where the next one begins, so each part of the text is read once.
		blocks := variableBlock.FindAllStringSubmatchIndex(text, -1)
		for i, at := range blocks {
			end := len(text)
			if i+1 < len(blocks) {
				end = blocks[i+1][0]
			}
			if sensitiveLine.MatchString(block(text[at[1]:end])) {
				sensitive[text[at[2]:at[3]]] = true
			}
		}
	}
	var warnings []string
	for i, v := range spec.Variables {
		if v.Value != "" && sensitive[v.Name] {
			warnings = append(warnings, fmt.Sprintf("%s: the template declares variable %q as sensitive, and everyone who may read this object can read the value; "+
				"store it in a Secret, and set valueFrom.secretKeyRef", variablesPath.Index(i).Child("value"), v.Name))
		}
	}
	return warnings
}

// block returns the text up to the brace that ends a block. A brace in a text or a comment counts too, which shortens or
// lengthens the block: the result is only used for a warning.
func block(text string) string {
	depth := 1
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			return text[:i]
		}
	}
	return text
}
