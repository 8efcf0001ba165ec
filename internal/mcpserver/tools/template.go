package tools

import (
	"context"
	"maps"
	"slices"
	"time"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// Maximum numbers of items in an answer.
const (
	shownFiles      = 200
	shownVersions   = 10
	shownParameters = 100
	shownOptions    = 50
)

func addGetTemplate(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_template", Title: "Template",
		Description: "Shows conditions, file names, parameters and the newest versions.",
		Toolset:     toolset.Templates, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("get", templateVersionsResource), callers.AggregatedRight("get", templateParametersResource)},
	}, getTemplate)
}

type getTemplateOutput struct {
	Template templateDetails `json:"template"`
}

// template is the list entry of a template. Running and AutoShutdown exist for clients of
// the previous implementation; they are never set.
type template struct {
	Name                string `json:"name"`
	Namespace           string `json:"namespace"`
	Running             bool   `json:"running"`
	AutoShutdown        string `json:"autoShutdown,omitempty"`
	DisplayName         string `json:"displayName,omitempty"`
	Organization        string `json:"organization,omitempty"`
	ActiveVersion       string `json:"activeVersion,omitempty"`
	ActiveVersionID     string `json:"activeVersionID,omitempty"`
	LatestVersion       string `json:"latestVersion,omitempty"`
	LatestVersionID     string `json:"latestVersionID,omitempty"`
	LatestVersionStatus string `json:"latestVersionStatus,omitempty"`
	LatestVersionError  string `json:"latestVersionError,omitempty"`
	Reason              string `json:"reason,omitempty"`
	Deprecated          bool   `json:"deprecated,omitempty"`
	UpdatedAt           string `json:"updatedAt,omitempty"`
}

// templateDetails contains neither the contents of files nor the values of variables. Notes
// lists the parts that could not be shown.
type templateDetails struct {
	template
	ControlPlane string              `json:"controlPlane,omitempty"`
	Description  string              `json:"description,omitempty"`
	DefaultTTL   string              `json:"defaultTTL,omitempty"`
	Conditions   []servedCondition   `json:"conditions"`
	FileCount    int                 `json:"fileCount"`
	SizeBytes    int64               `json:"sizeBytes"`
	Files        []templateFile      `json:"files"`
	Variables    []templateVariable  `json:"variables"`
	Tags         map[string]string   `json:"provisionerTags"`
	Parameters   []templateParameter `json:"parameters"`
	Presets      []string            `json:"presets"`
	Versions     []templateVersion   `json:"versions"`
	Notes        []string            `json:"notes"`
}

type templateFile struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// templateVariable is the name of a variable and the source of its value, never the value.
type templateVariable struct {
	Name   string `json:"name"`
	Secret string `json:"secret,omitempty"`
}

func getTemplate(ctx context.Context, call *toolset.Call, in objectInput) (getTemplateOutput, error) {
	tmpl, err := readTemplate(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return getTemplateOutput{}, err
	}
	details := describeTemplateDetails(tmpl)
	if err := details.addParameters(ctx, call, tmpl); err != nil {
		return getTemplateOutput{}, err
	}
	if err := details.addVersions(ctx, call, tmpl); err != nil {
		return getTemplateOutput{}, err
	}
	return getTemplateOutput{Template: details}, nil
}

func describeTemplate(tmpl *aggregationv1alpha1.CoderTemplate) template {
	return template{
		Name:                tmpl.Name,
		Namespace:           tmpl.Namespace,
		DisplayName:         excerpt(tmpl.Spec.DisplayName),
		Organization:        tmpl.Status.OrganizationName,
		ActiveVersion:       tmpl.Status.ActiveVersionName,
		ActiveVersionID:     tmpl.Status.ActiveVersionID,
		LatestVersion:       tmpl.Status.LatestVersionName,
		LatestVersionID:     tmpl.Status.LatestVersionID,
		LatestVersionStatus: tmpl.Status.LatestVersionStatus,
		LatestVersionError:  excerpt(tmpl.Status.LatestVersionError),
		Reason:              unreadyReason(tmpl.Status.Conditions),
		Deprecated:          tmpl.Status.Deprecated,
		UpdatedAt:           timestampOf(tmpl.Status.UpdatedAt),
	}
}

func describeTemplateDetails(tmpl *aggregationv1alpha1.CoderTemplate) templateDetails {
	details := templateDetails{
		template:     describeTemplate(tmpl),
		ControlPlane: tmpl.Labels[aggregationv1alpha1.LabelControlPlaneName],
		Description:  excerpt(tmpl.Spec.Description),
		Conditions:   describeServedConditions(tmpl.Status.Conditions),
		Files:        []templateFile{},
		Variables:    []templateVariable{},
		Tags:         map[string]string{},
		Parameters:   []templateParameter{},
		Presets:      []string{},
		Versions:     []templateVersion{},
		Notes:        []string{},
	}
	maps.Copy(details.Tags, tmpl.Spec.ProvisionerTags)
	if ttl := tmpl.Spec.DefaultTTLMillis; ttl != nil && *ttl > 0 {
		details.DefaultTTL = (time.Duration(*ttl) * time.Millisecond).String()
	}
	if source := tmpl.Status.Source; source != nil {
		details.FileCount, details.SizeBytes = int(source.FileCount), source.SizeBytes
	}
	for _, path := range slices.Sorted(maps.Keys(tmpl.Spec.Files)) {
		if len(details.Files) == shownFiles {
			details.Notes = append(details.Notes, "files are more than are shown: fileCount says how many")
			break
		}
		details.Files = append(details.Files, templateFile{Path: toolset.CleanText(path), Bytes: len(tmpl.Spec.Files[path])})
	}
	for _, v := range tmpl.Spec.Variables {
		variable := templateVariable{Name: v.Name}
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			variable.Secret = v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
		}
		details.Variables = append(details.Variables, variable)
	}
	return details
}
