package workspace

import (
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

// Plural is the name of the resource.
const Plural = "coderworkspaces"

type object = *aggregationv1alpha1.CoderWorkspace

var info = registry.ResourceInfo[object]{
	Plural: Plural, Singular: "coderworkspace", Kind: "CoderWorkspace", ShortNames: []string{"cws"}, InCoder: "workspace",
	New:       func() runtime.Object { return &aggregationv1alpha1.CoderWorkspace{} },
	NewList:   func() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceList{} },
	ParseName: metadata.ParseWorkspaceName,
	Fields: map[string]func(object) string{
		fieldFirstTemplate:  func(ws object) string { return ws.Spec.TemplateName },
		"spec.organization": func(ws object) string { return ws.Spec.Organization },
		"spec.running":      func(ws object) string { return strconv.FormatBool(ptr.Deref(ws.Spec.Running, false)) },
		fieldOwner:          func(ws object) string { return ws.Status.OwnerName },
		fieldOrganization:   func(ws object) string { return ws.Status.OrganizationName },
		fieldTemplate:       func(ws object) string { return ws.Status.TemplateName },
		"status.phase":      func(ws object) string { return ws.Status.Phase },
	},
	Indexed: []string{fieldOwner, fieldTemplate, fieldFirstTemplate},
	Folded:  []string{fieldOwner, fieldOrganization, fieldTemplate},
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object: organization, user and workspace."},
		{Name: "Owner", Type: "string", Description: "The user that owns the workspace."},
		{Name: "Template", Type: "string", Description: "The template that it was built from."},
		{Name: "Status", Type: "string", Description: "The status of the newest build."},
		{Name: "Health", Type: "string", Description: "Whether a running workspace can be used: the state of its agents and pods."},
		{Name: "Outdated", Type: "boolean", Description: "Whether the template has a newer active version."},
		{Name: "Age", Type: "string", Description: "Time since the workspace was created."},
		{Name: "Workspace", Type: "string", Priority: 1, Description: "The current name in Coder. The name of the object does not change."},
		{Name: "Organization", Type: "string", Priority: 1, Description: "The organization in Coder."},
		{Name: "Control plane", Type: "string", Priority: 1, Description: "The CoderControlPlane."},
		{Name: "Version", Type: "string", Priority: 1, Description: "The name of its template version."},
		{Name: "Autostop", Type: "string", Priority: 1, Description: "Time until it is stopped automatically."},
		{Name: "Last used", Type: "string", Priority: 1, Description: "Time since it was used."},
		{Name: "Reason", Type: "string", Priority: 1, Description: "Why it is not ready."},
	},
	Row:        row,
	Conditions: func(ws object) *[]metav1.Condition { return &ws.Status.Conditions },
	Spec:       func(ws object) any { return ws.Spec },
	CoderFields: func(err error) map[string]*field.Path {
		paths := map[string]*field.Path{
			"name":                       namePath,
			"template_id":                specPath.Child("templateName"),
			"template_version_id":        versionPath,
			"template_version_preset_id": presetPath,
			"rich_parameter_values":      parametersPath,
			"automatic_updates":          specPath.Child("automaticUpdates"),
			"dormant":                    specPath.Child("dormant"),
			"ttl_ms":                     specPath.Child("ttlMillis"),
			"schedule":                   specPath.Child("autostartSchedule"),
			"autostart_schedule":         specPath.Child("autostartSchedule"),
			"user_roles":                 sharedWithPath,
			"group_roles":                sharedWithPath,
		}
		var reported *coderd.Error
		if !errors.As(err, &reported) {
			return paths
		}
		// A field that is not in the list is the name of a parameter.
		for _, f := range reported.Fields {
			if paths[f.Field] == nil {
				paths[f.Field] = parametersPath.Key(f.Field)
			}
		}
		return paths
	},
}

// The fields with an index in the cache, and those of which Coder ignores the case.
const (
	fieldOwner        = "status.ownerName"
	fieldOrganization = "status.organizationName"
	fieldTemplate     = "status.templateName"
	// fieldFirstTemplate does not change if the template is renamed.
	fieldFirstTemplate = "spec.templateName"
)

var resource, kind = info.GroupResource(), info.GroupKind()

// Config configures the kind.
type Config struct {
	registry.Config
	// Agents are the connections to the agents of workspaces.
	Agents *agents.Pool
	// Tokens manages the tokens that are restricted to one workspace.
	Tokens *usertokens.WorkspaceTokens
	// Pods reports problems of pods. If nil, no problems are reported.
	Pods Pods
}

// Pods reports problems of the pods of workspaces.
type Pods interface {
	// Problem returns the problem of the pods of a workspace, or nil. builtAt is when the workspace
	// was built, or zero if it does not run. shown is the problem that the workspace shows since
	// its last build. It is returned by a replica that does not watch the pods.
	Problem(controlPlane types.NamespacedName, id uuid.UUID, builtAt time.Time, shown *workspacepods.Problem) *workspacepods.Problem
}

// Kind implements the behavior of workspaces.
type Kind struct {
	registry.Base[object]
	agents *agents.Pool
	tokens *usertokens.WorkspaceTokens
	pods   Pods
	// values maps builds to the values of their parameters.
	values *lru.Cache
	causes *registry.Causes
	// usernames maps a userKey to a username.
	usernames *lru.Cache
}

var (
	_ records.Writer   = (*Kind)(nil)
	_ registry.Checker = (*Kind)(nil)
)

// New returns the kind.
func New(config Config) *Kind {
	return &Kind{
		Base: registry.NewBase(&info, config.Config), agents: config.Agents, tokens: config.Tokens, pods: config.Pods,
		values: lru.New(registry.MaxBuilds), causes: registry.NewCauses(config.Clock),
		usernames: lru.New(maxUsernames),
	}
}

// Registry returns the description of workspaces for the registry.
func (k *Kind) Registry() registry.Kind {
	return k.Base.Registry(strategy{registry.NewStrategy(k.Typer)}, k)
}

func row(ws object, ages registry.Ages) []any {
	status := ws.Status
	health := "-"
	if status.Healthy != nil {
		health = map[bool]string{true: "Healthy", false: "Unhealthy"}[*status.Healthy]
	} else if status.LatestBuildStatus == statusRunning {
		health = "Connecting"
	}
	version := ""
	if status.LatestBuild != nil {
		version = status.LatestBuild.TemplateVersionName
	}
	reason := ""
	if c := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionReady); c != nil && c.Status != metav1.ConditionTrue {
		reason = c.Reason
	}
	return []any{
		ws.Name, status.OwnerName, status.TemplateName, status.Phase, health, status.Outdated, ages.Since(&ws.CreationTimestamp),
		status.WorkspaceName, status.OrganizationName, ws.Labels[aggregationv1alpha1.LabelControlPlaneName],
		version, ages.Until(status.AutoShutdown), ages.Since(status.LastUsedAt), reason,
	}
}

// fault converts an error about a workspace to an API status.
func fault(name string, err error) error { return info.Fault(name, err) }

// invalid returns 422 with the problems, or nil if there are none.
func invalid(name string, problems ...*field.Error) error { return info.Invalid(name, problems...) }

// unrecorded converts an error of a write to a record. Clients do not know the record as a
// resource, so the error is not returned unchanged.
func unrecorded(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err):
		return invalid(name, field.Invalid(field.NewPath("metadata"), field.OmitValueType{}, err.Error()))
	default:
		return coderfault.Unavailable("the metadata of workspace "+name+" cannot be stored now: "+err.Error(), 0)
	}
}

// isRefusal reports whether the same request would fail again until the spec is changed.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}

// subresource is the common part of the subresources of workspaces.
type subresource struct {
	kind       *Kind
	store      registry.Store
	authorizer authorizer.UnconditionalAuthorizer
}

// Subresources returns the storages of the subresources of coderworkspaces by name.
func (k *Kind) Subresources(store registry.Store, authorizer authorizer.UnconditionalAuthorizer) map[string]rest.Storage {
	r := &subresource{kind: k, store: store, authorizer: authorizer}
	return map[string]rest.Storage{
		"exec":        newSessionREST(k.New, r.exec),
		"portforward": newSessionREST(k.New, r.portForward),
		"scale":       &scaleREST{func() runtime.Object { return &autoscalingv1.Scale{} }, r},
		"start":       &actionREST{newAction, r, actionStart},
		"stop":        &actionREST{newAction, r, actionStop},
		"restart":     &actionREST{newAction, r, actionRestart},
		"orphan":      &actionREST{newAction, r, actionOrphan},
		"log":         registry.NewLogGetter(k.New, r.openLog),

		TokenSubresource: &tokenREST{func() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceToken{} }, r},
	}
}

// AddToScheme registers what requests for workspaces use besides the types: field labels of
// selectors, the queries of the subresources, and the Scale.
func AddToScheme(s *runtime.Scheme) error {
	if err := info.AddToScheme(s); err != nil {
		return err
	}
	scale := autoscalingv1.SchemeGroupVersion
	s.AddKnownTypes(scale, &autoscalingv1.Scale{})
	s.AddKnownTypes(schema.GroupVersion{Group: scale.Group, Version: runtime.APIVersionInternal}, &autoscalingv1.Scale{})
	metav1.AddToGroupVersion(s, scale)
	return errors.Join(
		registry.AddOptions[aggregationv1alpha1.CoderWorkspaceExecOptions](s),
		registry.AddOptions[aggregationv1alpha1.CoderWorkspacePortForwardOptions](s),
		registry.AddOptions[aggregationv1alpha1.CoderWorkspaceLogOptions](s),
	)
}
