package diagnosis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// unreadyProvisioners reports provisioners that are not ready. It reports none if the
// control plane is not ready, which explains them.
func unreadyProvisioners(f *controlPlaneFacts) []conclusion {
	var all []conclusion
	if !isTrue(f.object.Status.Conditions, coderv1alpha1.ConditionReady) {
		return all
	}
	for i := range f.provisioners {
		all = append(all, unreadyProvisioner(&f.provisioners[i])...)
	}
	return all
}

// unreadyProvisioner returns a conclusion if the provisioner does not take builds.
func unreadyProvisioner(p *coderv1alpha1.CoderProvisioner) []conclusion {
	c := findCondition(p.Status.Conditions, coderv1alpha1.ConditionReady)
	if c.Status == metav1.ConditionTrue && c.Reason != coderv1alpha1.ReasonScaledToZero {
		return nil
	}
	return one(Finding{
		Severity: severityWarning, Where: "CoderProvisioner/" + p.Name,
		What:     "it accepts no builds: " + cmp.Or(oneLine(c.Message, longestSentence), "the operator has not reconciled it yet"),
		Evidence: proof(c), Do: "fix it if templates need its tags",
	}, inNamespace("list_provisioners", p.Namespace))
}

func waitingBuild(f *workspaceFacts) []conclusion {
	b := f.build()
	if b.Status != buildPending {
		return nil
	}
	severity, why, do := f.whoTakesBuilds()
	found := Finding{
		Severity: severity, Where: fmt.Sprintf("%s, build %d", f.where(), b.Number), Do: do,
		What:     fmt.Sprintf("the %s build has been waiting for a provisioner since %s: %s", b.Transition, since(b.CreatedAt), why),
		Evidence: evidence(f.describeProvisioners()),
	}
	return one(found, inNamespace("list_provisioners", f.object.Namespace), f.callControlPlane())
}

func since(t *metav1.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}

// whoTakesBuilds returns why no provisioner takes the build. The severity is lower if that
// is uncertain.
func (f *workspaceFacts) whoTakesBuilds() (severity, why, do string) {
	if tags := f.build().UnmatchedTags; tags != "" {
		return severityError, "Coder knows no connected provisioner with the tags " + tags,
			"connect a CoderProvisioner with these tags, or correct spec.provisionerTags of the template and update the workspace; " +
				"if its resources no longer exist, delete it with delete_workspace and orphan=true"
	}
	tags := f.tags()
	fitting := slices.DeleteFunc(slices.Clone(f.provisioners), func(p coderv1alpha1.CoderProvisioner) bool { return !mayTake(&p, tags) })
	ready := slices.ContainsFunc(fitting, func(p coderv1alpha1.CoderProvisioner) bool { return unreadyProvisioner(&p) == nil })
	switch {
	case ready:
		return severityWarning, "a provisioner with its tags is ready, but may be busy", "wait, or increase the replicas of the CoderProvisioner"
	case len(fitting) > 0:
		return severityError, "the provisioners with its tags are not ready", "fix the CoderProvisioner: see its conditions"
	case len(tags) > 0:
		return severityError, "no CoderProvisioner in this namespace has the tags " + describeTags(tags), "create a CoderProvisioner with these tags, or correct spec.provisionerTags of the template"
	default:
		return severityWarning, "the built-in provisioners of Coder build it when they are free", "wait; check that the control plane is healthy, and that its built-in provisioners are not disabled (CODER_PROVISIONER_DAEMONS)"
	}
}

// tags returns the tags that a provisioner needs to build the workspace, without the tags
// that all provisioners have.
func (f *workspaceFacts) tags() map[string]string {
	tags := map[string]string{}
	if f.template == nil {
		return tags
	}
	for key, value := range f.template.Spec.ProvisionerTags {
		if key != "scope" && key != "owner" {
			tags[key] = value
		}
	}
	return tags
}

// mayTake reports whether a provisioner may take a build with these tags. The tags of a key
// that the operator did not create are unknown, so the result is true for such keys. A
// provisioner with tags takes no builds without tags.
func mayTake(p *coderv1alpha1.CoderProvisioner, tags map[string]string) bool {
	if p.Spec.Key.SecretRef != nil {
		return true
	}
	if len(tags) == 0 {
		return len(p.Spec.Tags) == 0
	}
	for key, value := range tags {
		if p.Spec.Tags[key] != value {
			return false
		}
	}
	return true
}

func (f *workspaceFacts) describeProvisioners() string {
	if len(f.provisioners) == 0 {
		return "there is no CoderProvisioner of this control plane in the namespace"
	}
	var all []string
	for i := range f.provisioners {
		p := &f.provisioners[i]
		c := findCondition(p.Status.Conditions, coderv1alpha1.ConditionReady)
		all = append(all, fmt.Sprintf("CoderProvisioner %s, tags %s: Ready=%s %s: %s", p.Name, describeTags(p.Spec.Tags), c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "\n")
}

func describeTags(tags map[string]string) string {
	var all []string
	for key, value := range tags {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ", ") + "}"
}

func missingTemplate(f *workspaceFacts) []conclusion {
	if !f.templateMissing {
		return nil
	}
	return one(Finding{
		Severity: severityWarning, Where: "CoderTemplate/" + f.templateName(),
		What: "the template no longer exists, so the workspace cannot get a newer version",
		Do:   "check with list_templates whether it was deleted",
	}, inNamespace("list_templates", f.object.Namespace))
}

func brokenTemplate(f *workspaceFacts) []conclusion {
	if f.template == nil || f.template.Status.LatestVersionStatus != versionFailed {
		return nil
	}
	return failedVersion(failedTemplate{f.template, f.versionLog})
}

// failedVersion returns the conclusion about a template whose newest version failed to
// build.
func failedVersion(t failedTemplate) []conclusion {
	status := t.object.Status
	what, shown, do := failedBuild(status.LatestVersionError, t.log)
	says := fmt.Sprintf("building its newest version %s failed: %s", orUnknown(status.LatestVersionName), what)
	if status.ActiveVersionName != "" && status.ActiveVersionID != status.LatestVersionID {
		says += fmt.Sprintf("; version %s stays active", status.ActiveVersionName)
	}
	return one(Finding{Severity: severityWarning, Where: "CoderTemplate/" + t.object.Name, What: says, Evidence: shown, Do: do},
		inNamespace("get_build_logs", t.object.Namespace).with("template", t.object.Name), about("get_template", t.object.Namespace, t.object.Name))
}

func deprecatedTemplate(f *workspaceFacts) []conclusion {
	if f.template == nil || !f.template.Status.Deprecated {
		return nil
	}
	return one(Finding{
		Severity: severityInfo, Where: "CoderTemplate/" + f.template.Name, What: "the template is deprecated: no new workspace can be created from it",
		Evidence: evidence(f.template.Status.DeprecationMessage), Do: "create a workspace from another template",
	})
}

// failedVersions reports the control plane's templates whose newest version failed to
// build.
func failedVersions(f *controlPlaneFacts) []conclusion {
	var all []conclusion
	for _, t := range f.templates {
		all = append(all, failedVersion(t)...)
	}
	return all
}

// logPrefix matches the time and the stage at the beginning of each line of a build log.
var logPrefix = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\S+ \[([^\]]*)\] ?`)

// terraformError returns Terraform's first error in a build log: its summary, its location
// and its details, as lines. It returns "" if there is none.
func terraformError(log string) string {
	return strings.Join(redaction.TerraformError(func(yield func(stage, line string) bool) {
		for line := range strings.Lines(log) {
			stage := ""
			if groups := logPrefix.FindStringSubmatch(line); groups != nil {
				line, stage = line[len(groups[0]):], groups[1]
			}
			if !yield(stage, line) {
				return
			}
		}
	}), "\n")
}

// sourceLine matches a line of a template that an error quotes, with its line number, or
// the frame between that line and the values in it.
var sourceLine = regexp.MustCompile(`(?m)^(\d+: .*|├─+)\n?`)

// withoutSource removes the quoted lines of the template from an error.
func withoutSource(block string) string { return sourceLine.ReplaceAllString(block, "") }

// buildCause is a known cause of a failed build. signs matches its error or its log.
type buildCause struct {
	signs *regexp.Regexp
	// what describes the problem. If it is empty, the build's own message is used.
	what string
	do   string
}

// waitsForPods matches the messages of a build that timed out while it waited for pods.
// One that may not list Events reports that instead of the Events of the pod that it waited for.
var waitsForPods = regexp.MustCompile(`events is forbidden|Waiting for rollout to finish|[Pp]od .* not ready|timed out waiting for the condition|context deadline exceeded`)

const doPods = "check why the pods of the workspace do not become ready"

// buildCauses matches messages of Coder's provisioner, Terraform and Kubernetes. The
// first match is used, so more specific patterns come first.
var buildCauses = []buildCause{
	{regexp.MustCompile(`insufficient quota|exceed your quota`), "its owner's quota in Coder does not allow it",
		"raise the quota allowance of a group of the owner in Coder, or delete workspaces that are not needed"},
	{regexp.MustCompile(`missing parameter|(?i)parameter .* (is )?required`), "a required parameter has no value",
		"give the parameter a value with update_workspace; get_template shows the parameters"},
	{regexp.MustCompile(`required template variables|No value for required variable`), "a variable of the template has no value",
		"set spec.variables of the template with push_template"},
	{regexp.MustCompile(`detected as (hung|pending)|terminated by the reaper`), "the provisioner stopped answering during the build",
		"check the provisioners and the control plane (diagnose_control_plane), and build again"},
	{regexp.MustCompile(`exceeded quota`), "", "raise the ResourceQuota of the namespace, or lower the requests in the template"},
	{regexp.MustCompile(`events is forbidden`), "", doPods},
	{regexp.MustCompile(`is forbidden: User "system:serviceaccount:|cannot (create|get|list|patch|delete|watch) resource`), "",
		"grant Coder's ServiceAccount the permission in that namespace: spec.rbac.workspaceNamespaces of the control plane"},
	{regexp.MustCompile(`namespaces "[^"]*" not found`), "", "create the namespace, or correct it in the template"},
	{regexp.MustCompile(`Failed to (query available provider packages|install provider)|registry\.terraform\.io|Failed to resolve provider packages`), "",
		"check that the provisioners can reach the Terraform registry or a mirror of it, and that the template requires a version that exists"},
	{waitsForPods, "", doPods},
	{regexp.MustCompile(`connection refused|no such host|i/o timeout|no route to host`), "",
		"check that the provisioner can reach the servers that the template uses"},
	{regexp.MustCompile(`already exists`), "", "delete the remaining objects of an earlier build, or use another name in the template"},
	{regexp.MustCompile(`Error: `), "", "fix the template at the reported file and line, and push it with push_template"},
}

// failedBuild describes a failed build, from Coder's error and the build log. shown is the
// evidence.
func failedBuild(problem, log string) (what, shown, do string) {
	block, problem := terraformError(log), toolset.CleanText(problem)
	said := strings.Join(slices.DeleteFunc([]string{block, problem}, func(s string) bool { return s == "" }), "\n")
	for _, cause := range buildCauses {
		if cause.signs.MatchString(said) {
			what, do = cause.what, cause.do
			break
		}
	}
	switch {
	case what != "":
	case block != "":
		what = oneLine(withoutSource(block), longestSentence)
	case problem != "":
		what = oneLine(problem, longestSentence)
	default:
		what = "Coder reported no reason"
	}
	shown = redaction.Truncate(strings.TrimSpace(said), longestEvidence)
	if block == "" && log != "" {
		shown = tail(strings.TrimSpace(said+"\n"+log), longestEvidence)
	}
	if do == "" {
		do = "read its log, fix the template or the parameters, and build again"
	}
	return what, shown, do
}
