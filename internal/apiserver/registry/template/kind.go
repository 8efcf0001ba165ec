package template

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/lru"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// Plural is the name of the resource.
const Plural = "codertemplates"

type object = *aggregationv1alpha1.CoderTemplate

var info = registry.ResourceInfo[object]{
	Plural: Plural, Singular: "codertemplate", Kind: "CoderTemplate", ShortNames: []string{"ctpl"}, InCoder: "template",
	New:       func() runtime.Object { return &aggregationv1alpha1.CoderTemplate{} },
	NewList:   func() runtime.Object { return &aggregationv1alpha1.CoderTemplateList{} },
	ParseName: metadata.ParseTemplateName,
	Fields: map[string]func(object) string{
		"spec.organization":          func(t object) string { return t.Spec.Organization },
		"spec.versionID":             func(t object) string { return t.Spec.VersionID },
		"status.activeVersionID":     func(t object) string { return t.Status.ActiveVersionID },
		"status.latestVersionStatus": func(t object) string { return t.Status.LatestVersionStatus },
		"status.deprecated":          func(t object) string { return strconv.FormatBool(t.Status.Deprecated) },
		fieldOrganization:            func(t object) string { return t.Status.OrganizationName },
		fieldName:                    func(t object) string { return t.Status.TemplateName },
	},
	Folded: []string{fieldOrganization, fieldName},
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object: organization and template."},
		{Name: "Display name", Type: "string", Description: "What Coder shows instead of the name."},
		{Name: "Status", Type: "string", Description: "Active, or the reason why the newest version is not active, for example AwaitingPromotion or TestsFailed."},
		{Name: "Active version", Type: "string", Description: "The version from which workspaces are built."},
		{Name: "Deprecated", Type: "boolean", Description: "Whether no new workspace can be created from it."},
		{Name: "Age", Type: "string", Description: "Time since the template was created."},
		{Name: "Template", Type: "string", Priority: 1, Description: "The current name in Coder. The name of the object does not change."},
		{Name: "Organization", Type: "string", Priority: 1, Description: "The organization in Coder."},
		{Name: "Control plane", Type: "string", Priority: 1, Description: "The CoderControlPlane."},
		{Name: "Latest version", Type: "string", Priority: 1, Description: "The newest version, active or not."},
		{Name: "Latest status", Type: "string", Priority: 1, Description: "The status of its build."},
		{Name: "Updated", Type: "string", Priority: 1, Description: "Time since the template changed."},
		{Name: "Reason", Type: "string", Priority: 1, Description: "Why it is not ready."},
	},
	Row:        row,
	Conditions: func(t object) *[]metav1.Condition { return &t.Status.Conditions },
	Spec:       func(t object) any { return t.Spec },
	CoderFields: func(error) map[string]*field.Path {
		return map[string]*field.Path{
			"name":                             namePath,
			"display_name":                     specPath.Child("displayName"),
			"description":                      specPath.Child("description"),
			"icon":                             specPath.Child("icon"),
			"default_ttl_ms":                   specPath.Child("defaultTTLMillis"),
			"activity_bump_ms":                 specPath.Child("activityBumpMillis"),
			"allow_user_cancel_workspace_jobs": specPath.Child("allowUserCancelWorkspaceJobs"),
			"cors_behavior":                    specPath.Child("corsBehavior"),
			"use_classic_parameter_flow":       specPath.Child("useClassicParameterFlow"),
			"template_version_id":              versionPath,
			"file_id":                          filesPath,
			"file":                             filesPath,
			"files":                            filesPath,
		}
	},
}

// The fields of which Coder ignores the case.
const (
	fieldOrganization = "status.organizationName"
	fieldName         = "status.templateName"
)

var resource, kind = info.GroupResource(), info.GroupKind()

// Config configures the kind.
type Config struct {
	registry.Config
	Secrets registry.Secrets
	Tests   Tests
	// Authorizer decides who may promote versions. If nil, everybody who may change the template.
	Authorizer authorizer.UnconditionalAuthorizer
}

// Kind implements CoderTemplate. It is safe for concurrent use.
type Kind struct {
	registry.Base[object]
	secrets    registry.Secrets
	tests      Tests
	authorizer authorizer.UnconditionalAuthorizer
	versions   *versionCache
	// secretsRead maps templates to the time at which their Secrets were last read.
	secretsRead *lru.Cache
	unpacking   *unpacking
	causes      *registry.Causes
}

var (
	_ records.Writer   = (*Kind)(nil)
	_ registry.Checker = (*Kind)(nil)
)

// New returns the kind.
func New(config Config) *Kind {
	return &Kind{
		Base: registry.NewBase(&info, config.Config), secrets: config.Secrets, tests: config.Tests, authorizer: config.Authorizer,
		versions:    newVersionCache(config.Clock),
		secretsRead: lru.New(maxTemplates), causes: registry.NewCauses(config.Clock),
		unpacking: &unpacking{running: make(chan struct{}, maxUnpacking), waiting: make(chan struct{}, maxWaiting), wait: maxWait},
	}
}

// Registry returns the description of templates for the registry.
func (k *Kind) Registry() registry.Kind { return k.Base.Registry(k.strategy(), k) }

func (k *Kind) strategy() strategy { return strategy{registry.NewStrategy(k.Typer), k.secrets} }

// AddToScheme registers conversions for templates: the labels of field selectors, and the query
// parameters of the subresources.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(
		info.AddToScheme(s),
		versionInfo.AddToScheme(s),
		registry.AddOptions[aggregationv1alpha1.CoderTemplateParameterOptions](s),
		registry.AddOptions[aggregationv1alpha1.CoderTemplateLogOptions](s),
	)
}

func row(tmpl object, ages registry.Ages) []any {
	status := tmpl.Status
	state, reason := "Unknown", ""
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionReady); c != nil {
		state = c.Reason
		if c.Status != metav1.ConditionTrue {
			reason = c.Message
		}
	}
	if c := registry.UnreachableCondition(status.Conditions); c != nil {
		reason = c.Message
	}
	if tmpl.DeletionTimestamp != nil {
		state = aggregationv1alpha1.ReasonDeleting
	}
	return []any{
		tmpl.Name, tmpl.Spec.DisplayName, state, status.ActiveVersionName, status.Deprecated, ages.Since(&tmpl.CreationTimestamp),
		status.TemplateName, status.OrganizationName, tmpl.Labels[aggregationv1alpha1.LabelControlPlaneName],
		status.LatestVersionName, status.LatestVersionStatus, ages.Since(status.UpdatedAt), reason,
	}
}

func subjectOf(name string) impersonation.Subject {
	return impersonation.Subject{Resource: resource, Name: name}
}

// fault converts an error about a template to an API status.
func fault(name string, err error) error { return info.Fault(name, err) }

// versionFault is like fault, for an error about a new version. The fields of the error are those
// of the version.
func versionFault(name string, err error) error {
	ofVersion := info
	ofVersion.CoderFields = func(err error) map[string]*field.Path {
		fields := info.CoderFields(err)
		fields["name"] = versionNamePath
		fields["message"] = specPath.Child("versionMessage")
		fields["tags"] = specPath.Child("provisionerTags")
		fields["user_variable_values"] = variablesPath
		return fields
	}
	return ofVersion.Fault(name, err)
}

func invalid(tmpl object, problem *field.Error) error { return info.Invalid(tmpl.Name, problem) }
