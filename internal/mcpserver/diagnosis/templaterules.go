package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

func missingTemplate(f *workspaceFacts) []conclusion {
	if !f.templateMissing {
		return nothing()
	}
	return one(Finding{
		Severity: severityWarning, Where: "CoderTemplate/" + templateName(f.object),
		What: "the template no longer exists, so the workspace cannot get a newer version",
		Do:   "check with list_templates whether it was renamed or deleted",
	}, Next{Tool: "list_templates", Arguments: map[string]any{"namespace": f.object.Namespace}})
}

// brokenTemplate reports a template whose newest version failed to build.
func brokenTemplate(f *workspaceFacts) []conclusion {
	if f.template == nil || f.template.Status.LatestVersionStatus != versionFailed {
		return nothing()
	}
	return []conclusion{failedVersion(failedTemplate{f.template, f.versionLog})}
}

// failedVersion returns the conclusion about a template whose newest version failed to
// build.
func failedVersion(t failedTemplate) conclusion {
	status := t.object.Status
	what, shown, do := failedBuild(status.LatestVersionError, t.log)
	says := fmt.Sprintf("building its newest version %s failed: %s", orUnknown(status.LatestVersionName), what)
	if status.ActiveVersionName != "" && status.ActiveVersionID != status.LatestVersionID {
		says += fmt.Sprintf("; version %s stays active", status.ActiveVersionName)
	}
	return conclusion{
		Finding: Finding{Severity: severityWarning, Where: "CoderTemplate/" + t.object.Name, What: says, Evidence: shown, Do: do},
		next: []Next{
			{Tool: "get_build_logs", Arguments: map[string]any{"namespace": t.object.Namespace, "template": t.object.Name}},
			{Tool: "get_template", Arguments: map[string]any{"namespace": t.object.Namespace, "name": t.object.Name}},
		},
	}
}

func deprecatedTemplate(f *workspaceFacts) []conclusion {
	if f.template == nil || !f.template.Status.Deprecated {
		return nothing()
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
		all = append(all, failedVersion(t))
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
var waitsForPods = regexp.MustCompile(`Waiting for rollout to finish|[Pp]od .* not ready|timed out waiting for the condition|context deadline exceeded`)

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
	{regexp.MustCompile(`is forbidden: User "system:serviceaccount:|cannot (create|get|list|patch|delete|watch) resource`), "",
		"grant Coder's ServiceAccount the permission in that namespace: spec.rbac.workspaceNamespaces of the control plane"},
	{regexp.MustCompile(`namespaces "[^"]*" not found`), "", "create the namespace, or correct it in the template"},
	{regexp.MustCompile(`Failed to (query available provider packages|install provider)|registry\.terraform\.io|Failed to resolve provider packages`), "",
		"check that the provisioners can reach the Terraform registry or a mirror of it, and that the template requires a version that exists"},
	{waitsForPods, "",
		"check why the pods of the workspace do not become ready"},
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
