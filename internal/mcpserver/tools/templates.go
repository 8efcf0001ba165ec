package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	templatePlural             = "codertemplates"
	templateResource           = templatePlural + "." + aggregationGroup
	templateVersionsResource   = "codertemplateversions"
	templateParametersResource = templatePlural + "/parameters"
)

func addTemplates(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "list_templates", Title: "Templates",
		Description: "Lists templates, named organization.template.",
		Toolset:     toolset.Templates, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("list", templatePlural)},
	}, listTemplates)
	toolset.Add(s, toolset.Definition{
		Name: "get_template", Title: "Template",
		Description: "Shows conditions, parameters, the newest versions, and files.",
		Toolset:     toolset.Templates, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("list", templateVersionsResource), callers.AggregatedRight("get", templateParametersResource)},
	}, getTemplate)
	toolset.Add(s, toolset.Definition{
		Name: "set_template_running", Title: "Start or stop a template",
		Description: "Changes nothing: templates have no run state.",
		Toolset:     toolset.Templates, Effect: toolset.Writes, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
	}, setTemplateRunning)
	toolset.Add(s, toolset.Definition{
		Name: "push_template", Title: "Push a template",
		Description: "Makes a new version, which becomes active once it is built.",
		Toolset:     toolset.Templates, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural)},
		OneOf:  []callers.Right{callers.AggregatedRight("create", templatePlural), callers.AggregatedRight("update", templatePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("watch", templatePlural), callers.AggregatedRight("get", templateLogResource)},
	}, pushTemplate)
	toolset.Add(s, toolset.Definition{
		Name: "promote_template_version", Title: "Promote a version",
		Description: "Makes a built version active, also to roll back.",
		Toolset:     toolset.Templates, Effect: toolset.Destroys, Idempotent: true,
		Rights: []callers.Right{callers.AggregatedRight("get", templatePlural), callers.AggregatedRight("update", templatePlural)},
		Uses:   []callers.Right{callers.AggregatedRight("list", templateVersionsResource)},
	}, promoteTemplateVersion)
}

type templateResult struct {
	Template template `json:"template"`
	Updated  bool     `json:"updated"`
	Message  string   `json:"message,omitempty"`
}

// readTemplate is readObject for a template. It includes up to 2 MiB of files, which the API
// does not serve separately.
func readTemplate(ctx context.Context, kube *callers.Kube, namespace, name string) (*aggregationv1alpha1.CoderTemplate, error) {
	return readObject(ctx, kube, templateResource, namespace, name, &aggregationv1alpha1.CoderTemplate{})
}

// templateInCoder returns the current names in Coder of a template and its organization. Name
// is that of its object, which stays if the template is renamed, and is in lower case. If the
// template does not exist or the caller may not read it, the names are parts of its name.
func templateInCoder(ctx context.Context, kube *callers.Kube, namespace, name string) (organization, template string, err error) {
	tmpl, err := readTemplate(ctx, kube, namespace, strings.ToLower(name))
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		_, organization, template = splitTemplateName(name)
		return organization, template, nil
	case err != nil:
		return "", "", err
	default:
		return tmpl.Status.OrganizationName, tmpl.Status.TemplateName, nil
	}
}

func listTemplates(ctx context.Context, call *toolset.Call, in listInput) (listOutput[template], error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listOutput[template]{}, err
	}
	path := "/apis/" + aggregationv1alpha1.GroupVersion.String()
	if in.Namespace != "" {
		if err := toolset.RequireNamespace(in.Namespace); err != nil {
			return listOutput[template]{}, err
		}
		path += "/namespaces/" + in.Namespace
	}
	options := page.Options(in.Namespace)
	query := url.Values{"limit": {strconv.FormatInt(options.Limit, 10)}}
	if options.Continue != "" {
		query.Set("continue", options.Continue)
	}
	body, err := call.Kube.Raw(ctx, path+"/"+templatePlural, query)
	if err != nil {
		return listOutput[template]{}, callError("list", templateResource, in.Namespace, "", err)
	}
	defer body.Close()
	items, next, err := decodeTemplates(body)
	if err != nil {
		return listOutput[template]{}, callError("list", templateResource, in.Namespace, "", fmt.Errorf("reading the answer: %w", err))
	}
	return onePage(page, items, next, func(tmpl *template) template { return *tmpl }), nil
}

// decodeTemplates decodes a list object by object, so that the files of only one template
// are in memory at a time. A template has up to 2 MiB of files, so a page that was decoded as a
// whole could exhaust the memory of this process.
func decodeTemplates(r io.Reader) (items []template, next string, err error) {
	d := json.NewDecoder(r)
	if err := wantDelimiter(d, '{'); err != nil {
		return nil, "", err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, "", err
		}
		switch key {
		case "metadata":
			var meta metav1.ListMeta
			err = d.Decode(&meta)
			next = meta.Continue
		case "items":
			items, err = decodeItems(d)
		default:
			err = d.Decode(&json.RawMessage{})
		}
		if err != nil {
			return nil, "", err
		}
	}
	return items, next, wantDelimiter(d, '}')
}

// decodeItems decodes the items of a list, which are null if the list is empty.
func decodeItems(d *json.Decoder) (items []template, err error) {
	if begin, err := d.Token(); err != nil || begin == nil {
		return nil, err
	} else if begin != json.Delim('[') {
		return nil, fmt.Errorf("the items are %v and no list", begin)
	}
	for d.More() {
		var tmpl aggregationv1alpha1.CoderTemplate
		if err := d.Decode(&tmpl); err != nil {
			return nil, err
		}
		items = append(items, describeTemplate(&tmpl))
	}
	return items, wantDelimiter(d, ']')
}

func wantDelimiter(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err == nil && token != want {
		return fmt.Errorf("the list has %v where %v must be", token, want)
	}
	return err
}

type setTemplateRunningInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Running   bool   `json:"running" jsonschema:"ignored: a template does not run"`
}

// setTemplateRunning exists because the previous implementation of this server had the
// tool.
func setTemplateRunning(ctx context.Context, call *toolset.Call, in setTemplateRunningInput) (templateResult, error) {
	tmpl, err := readTemplate(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return templateResult{}, err
	}
	return templateResult{
		Template: describeTemplate(tmpl),
		Message:  "nothing was changed: templates have no run state; set_workspace_running starts and stops the workspaces that are made of them",
	}, nil
}

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
	versions, err := readTemplateVersions(ctx, call, tmpl.Namespace, tmpl.Name)
	if err := details.without(ctx, err); err != nil {
		return getTemplateOutput{}, err
	}
	for _, v := range versions[:min(len(versions), shownVersions)] {
		s := v.Status
		details.Versions = append(details.Versions, templateVersion{
			ID: s.ID, Name: toolset.CleanText(s.VersionName), Message: excerpt(s.Message), Status: s.JobStatus, Error: excerpt(s.Error),
			Active: s.Active, Archived: s.Archived, CreatedAt: timestampOf(&v.CreationTimestamp), CreatedBy: toolset.CleanText(s.CreatedBy),
		})
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

// readTemplateVersions returns the versions, the newest first, including archived ones.
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

func (d *templateDetails) addParameters(ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate) error {
	var list aggregationv1alpha1.CoderTemplateParameterList
	err := toolset.Aggregated(templatePlural, tmpl.Namespace, tmpl.Name, "parameters", nil).Decode(ctx, call.Kube, &list)
	if err != nil {
		return d.without(ctx, err)
	}
	room := maxParameterBytes
	for _, p := range list.Items[:min(len(list.Items), shownParameters)] {
		described := templateParameter{
			Name: toolset.CleanText(p.Name), Description: excerpt(p.Description), Type: p.Type, Required: p.Required,
			DefaultValue: excerpt(toolset.CleanParameter(p.Name, p.DefaultValue)), Mutable: p.Mutable, Ephemeral: p.Ephemeral,
		}
		if v := p.Validation; v != nil {
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
			described.Validation = excerpt(strings.Join(rules, ", "))
		}
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

// without records a note about a part that could not be read; the other parts are still
// returned. It returns the error if the call was cancelled or timed out, and nil for nil.
func (d *templateDetails) without(ctx context.Context, err error) error {
	var call *toolset.CallError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &call) {
		return err
	}
	d.Notes = append(d.Notes, toolset.Gap(ctx, call))
	return nil
}

const (
	// shownFiles is the maximum number of files that are listed without having been requested.
	shownFiles = 200
	// maxSourceBytes limits the text of all files in an answer.
	maxSourceBytes = 256 << 10
	// mostNamed is the maximum number of files that a note names.
	mostNamed = 20
)

// templateFile is a file of a template. Text is set if the file was requested. Redacted reports
// that it differs from the source.
type templateFile struct {
	Path     string `json:"path"`
	Bytes    int    `json:"bytes"`
	Text     string `json:"text,omitempty"`
	Redacted bool   `json:"redacted,omitempty"`
}

// addFiles lists the files, with the text of those that match a pattern.
func (d *templateDetails) addFiles(tmpl *aggregationv1alpha1.CoderTemplate, patterns []string) {
	if source := tmpl.Status.Source; source != nil {
		d.FileCount, d.SizeBytes = int(source.FileCount), source.SizeBytes
	}
	var omitted []string
	unlisted, redacted, room := false, false, maxSourceBytes
	names := slices.Sorted(maps.Keys(tmpl.Spec.Files))
	for _, name := range names {
		source := tmpl.Spec.Files[name]
		requested := slices.ContainsFunc(patterns, func(pattern string) bool { return matchesFile(pattern, name) })
		if !requested && len(d.Files) >= shownFiles {
			unlisted = true
			continue
		}
		file := templateFile{Path: toolset.CleanText(name), Bytes: len(source)}
		if text := toolset.CleanSource(name, source); requested && len(text) <= room {
			file.Text, file.Redacted = text, text != source
			redacted, room = redacted || file.Redacted, room-len(text)
		} else if requested {
			omitted = append(omitted, file.Path)
		}
		d.Files = append(d.Files, file)
	}
	if unlisted {
		d.Notes = append(d.Notes, "files are more than are shown: fileCount says how many")
	}
	if redacted {
		d.Notes = append(d.Notes, fmt.Sprintf("files with redacted: true differ from the source: secrets are replaced by %s, and invisible characters are removed; "+
			"push_template refuses such text and, with keepFiles, keeps these files as they are", redaction.Placeholder))
	}
	if len(omitted) > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("the text of %d files is left out, because an answer has at most %d KiB of text; request fewer files: %s",
			len(omitted), maxSourceBytes>>10, strings.Join(omitted[:min(len(omitted), mostNamed)], ", ")))
	}
	if len(patterns) > 0 && hidesFiles(tmpl) {
		d.Notes = append(d.Notes, "the API does not serve the files of this template; condition FilesAvailable says why")
		return
	}
	for _, pattern := range patterns[:min(len(patterns), mostNamed)] {
		if !slices.ContainsFunc(names, func(name string) bool { return matchesFile(pattern, name) }) {
			d.Notes = append(d.Notes, fmt.Sprintf("no file matches %q", redaction.Truncate(toolset.CleanText(pattern), mostNamed*5)))
		}
	}
}
