package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// Maximum numbers of items in an answer.
const (
	shownVersions   = 10
	shownParameters = 100
	shownOptions    = 50
	shownPresets    = 50
	// maxParameterBytes limits the text of all parameters with their options.
	maxParameterBytes = 32 << 10
)

type getTemplateInput struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Files     []string `json:"files,omitempty" jsonschema:"paths or patterns, like *.tf, of files to show with their text; * for all"`
}

type getTemplateOutput struct {
	Template templateDetails `json:"template"`
}

// template is the list entry of a template. Running and AutoShutdown exist for clients of
// the previous implementation; they are never set. TemplateName is the name in Coder if that is
// not the last part of Name.
type template struct {
	Name                string `json:"name"`
	Namespace           string `json:"namespace"`
	Running             bool   `json:"running"`
	AutoShutdown        string `json:"autoShutdown,omitempty"`
	DisplayName         string `json:"displayName,omitempty"`
	TemplateName        string `json:"templateName,omitempty"`
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

// templateDetails contains the text of the requested files, and no values of variables. Notes
// lists the parts that could not be shown.
type templateDetails struct {
	template
	ControlPlane string              `json:"controlPlane,omitempty"`
	Description  string              `json:"description,omitempty"`
	DefaultTTL   string              `json:"defaultTTL,omitempty"`
	Conditions   []condition         `json:"conditions"`
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

// templateVariable is the name of a variable and the source of its value, never the value.
type templateVariable struct {
	Name   string `json:"name"`
	Secret string `json:"secret,omitempty"`
}

func getTemplate(ctx context.Context, call *toolset.Call, in getTemplateInput) (getTemplateOutput, error) {
	tmpl, err := readTemplate(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return getTemplateOutput{}, err
	}
	details := describeTemplateDetails(tmpl)
	details.addFiles(tmpl, in.Files)
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
		TemplateName:        otherName(tmpl.Name, tmpl.Status.TemplateName),
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
		Conditions:   describeConditions(tmpl.Status.Conditions),
		Tags:         tmpl.Spec.ProvisionerTags,
	}
	if ttl := tmpl.Spec.DefaultTTLMillis; ttl != nil && *ttl > 0 {
		details.DefaultTTL = (time.Duration(*ttl) * time.Millisecond).String()
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

// templateVersion is one version of a template, with the values that the API uses.
type templateVersion struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Message   string `json:"message,omitempty"`
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
	Active    bool   `json:"active"`
	Archived  bool   `json:"archived,omitempty"`
	CreatedAt string `json:"createdAt,omitempty"`
	CreatedBy string `json:"createdBy,omitempty"`
}

// templateParameter is a parameter of the template, whose value is set for each workspace.
type templateParameter struct {
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	Type         string   `json:"type"`
	Required     bool     `json:"required"`
	DefaultValue string   `json:"defaultValue,omitempty"`
	Mutable      bool     `json:"mutable"`
	Ephemeral    bool     `json:"ephemeral,omitempty"`
	Options      []string `json:"options,omitempty"`
	Validation   string   `json:"validation,omitempty"`
}

// readTemplateVersions returns the newest versions, including archived ones.
func readTemplateVersions(ctx context.Context, call *toolset.Call, namespace, name string) ([]aggregationv1alpha1.CoderTemplateVersion, error) {
	if err := toolset.RequireObject(namespace, name); err != nil {
		return nil, err
	}
	var list aggregationv1alpha1.CoderTemplateVersionList
	if err := call.Kube.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"status.template": name}); err != nil {
		return nil, callError("list", templateVersionsResource+"."+aggregationGroup, namespace, "", err)
	}
	slices.SortFunc(list.Items, func(a, b aggregationv1alpha1.CoderTemplateVersion) int {
		return b.Status.CreatedAt.Compare(a.Status.CreatedAt.Time)
	})
	return list.Items, nil
}

// findTemplateVersion returns the version with this ID, or the newest one if id is empty.
// If the version is not among the newest ones, only its ID is set.
func findTemplateVersion(ctx context.Context, call *toolset.Call, namespace, name, id string) (aggregationv1alpha1.CoderTemplateVersionStatus, error) {
	versions, err := readTemplateVersions(ctx, call, namespace, name)
	i := slices.IndexFunc(versions, func(v aggregationv1alpha1.CoderTemplateVersion) bool { return id == "" || v.Status.ID == id })
	switch {
	case err != nil:
		return aggregationv1alpha1.CoderTemplateVersionStatus{}, err
	case i >= 0:
		return versions[i].Status, nil
	case id == "":
		return aggregationv1alpha1.CoderTemplateVersionStatus{}, toolset.UsageError(fmt.Sprintf("template %s in namespace %s has no version yet", name, namespace))
	default:
		return aggregationv1alpha1.CoderTemplateVersionStatus{ID: id}, nil
	}
}

func (d *templateDetails) addVersions(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate) error {
	versions, err := readTemplateVersions(ctx, call, tmpl.Namespace, tmpl.Name)
	if err != nil {
		return d.without(ctx, err)
	}
	for _, v := range versions[:min(len(versions), shownVersions)] {
		s := v.Status
		d.Versions = append(d.Versions, templateVersion{
			ID: s.ID, Name: toolset.CleanText(s.VersionName), Message: excerpt(s.Message), Status: s.JobStatus, Error: excerpt(s.Error),
			Active: s.Active, Archived: s.Archived, CreatedAt: timestampOf(&v.CreationTimestamp), CreatedBy: toolset.CleanText(s.CreatedBy),
		})
	}
	return nil
}

func (d *templateDetails) addParameters(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate) error {
	var list aggregationv1alpha1.CoderTemplateParameterList
	err := toolset.Aggregated(templatePlural, tmpl.Namespace, tmpl.Name, "parameters", nil).Decode(ctx, call.Kube, &list)
	if err != nil {
		return d.without(ctx, err)
	}
	room := maxParameterBytes
	for _, p := range list.Items[:min(len(list.Items), shownParameters)] {
		described := describeTemplateParameter(p)
		const keys = 120
		if room -= keys + len(described.Name+described.Description+described.DefaultValue+described.Validation); room < 0 {
			break
		}
		d.Parameters = append(d.Parameters, described)
	}
	if shown := len(d.Parameters); shown < len(list.Items) {
		d.Notes = append(d.Notes, fmt.Sprintf("parameters: %d of %d are shown; the files of the template have all", shown, len(list.Items)))
	}
	d.addOptions(list.Items, max(0, room))
	for _, p := range list.Presets[:min(len(list.Presets), shownPresets)] {
		d.Presets = append(d.Presets, excerpt(p.Name))
	}
	if shown := len(d.Presets); shown < len(list.Presets) {
		d.Notes = append(d.Notes, fmt.Sprintf("presets: %d of %d are shown; the files of the template have all", shown, len(list.Presets)))
	}
	return nil
}

// addOptions adds the options of the parameters that are shown. Each parameter may use an equal
// part of the room, and what those before it left.
func (d *templateDetails) addOptions(parameters []aggregationv1alpha1.CoderTemplateParameter, room int) {
	omitted, cut := 0, 0
	for i := range d.Parameters {
		p, shown, share := parameters[i], &d.Parameters[i].Options, room/(len(d.Parameters)-i)
		for _, option := range p.Options[:min(len(p.Options), shownOptions)] {
			whole := toolset.CleanParameter(p.Name, option.Value)
			value := excerpt(whole)
			if len(value) > share {
				break
			}
			*shown, share, room = append(*shown, value), share-len(value), room-len(value)
			if value != whole {
				cut++
			}
		}
		omitted += len(p.Options) - len(*shown)
	}
	if omitted+cut > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("options of parameters: %d are left out, and only the beginning of %d is shown; the files of the template have them", omitted, cut))
	}
}

func describeTemplateParameter(p aggregationv1alpha1.CoderTemplateParameter) templateParameter {
	return templateParameter{
		Name: toolset.CleanText(p.Name), Description: excerpt(p.Description), Type: p.Type, Required: p.Required,
		DefaultValue: excerpt(toolset.CleanParameter(p.Name, p.DefaultValue)), Mutable: p.Mutable, Ephemeral: p.Ephemeral, Validation: describeValidation(p.Validation),
	}
}

// describeValidation formats the validation rules in one line, for example "min 1, max 8,
// increasing".
func describeValidation(v *aggregationv1alpha1.CoderTemplateParameterValidation) string {
	if v == nil {
		return ""
	}
	var rules []string
	if v.Min != nil {
		rules = append(rules, fmt.Sprintf("min %d", *v.Min))
	}
	if v.Max != nil {
		rules = append(rules, fmt.Sprintf("max %d", *v.Max))
	}
	if v.Regex != "" {
		rules = append(rules, "matches "+v.Regex)
	}
	if v.Monotonic != "" {
		rules = append(rules, v.Monotonic)
	}
	return excerpt(strings.Join(rules, ", "))
}

// without records a note about a part that could not be read; the other parts are still
// returned. It returns the error if the call was cancelled or timed out.
func (d *templateDetails) without(ctx context.Context, err error) error {
	var call *toolset.CallError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &call) {
		return err
	}
	d.Notes = append(d.Notes, toolset.Gap(ctx, call))
	return nil
}
