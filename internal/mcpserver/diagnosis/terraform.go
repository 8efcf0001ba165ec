package diagnosis

import (
	"regexp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/text"
	"github.com/coder-k8s/coder-k8s/internal/terraformerror"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// logPrefix is the time and the stage in front of each line of a build log.
var logPrefix = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\S+ \[([^\]]*)\] ?`)

// terraformError is the first error of Terraform in the log of a build: its summary,
// the place and the detail, line by line. It is empty where there is none.
func terraformError(log string) string {
	return strings.Join(terraformerror.Find(func(yield func(stage, line string) bool) {
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

// sourceLine is a line of a template that an error quotes, with its number, or the
// frame between that and the values of what stands in it.
var sourceLine = regexp.MustCompile(`(?m)^(\d+: .*|├─+)\n?`)

// withoutSource leaves out of an error what it quotes of the template.
func withoutSource(block string) string { return sourceLine.ReplaceAllString(block, "") }

// buildTrouble is what may be wrong with a build, by signs in its error or its log.
type buildTrouble struct {
	signs *regexp.Regexp
	// what is wrong; empty is what the build itself says.
	what string
	do   string
}

// waitsForPods are the words of a build that waited in vain for pods.
var waitsForPods = regexp.MustCompile(`Waiting for rollout to finish|[Pp]od .* not ready|timed out waiting for the condition|context deadline exceeded`)

// buildTroubles are the words of Coder's provisioner, of Terraform and of
// Kubernetes. The more particular stand first.
var buildTroubles = []buildTrouble{
	{regexp.MustCompile(`insufficient quota|exceed your quota`), "its owner's quota in Coder does not allow it",
		"raise the quota allowance of a group of the owner in Coder, or delete workspaces that are not needed"},
	{regexp.MustCompile(`missing parameter|(?i)parameter .* (is )?required`), "a required parameter has no value",
		"give the parameter a value with update_workspace; get_template shows the parameters"},
	{regexp.MustCompile(`required template variables|No value for required variable`), "a variable of the template has no value",
		"set spec.variables of the template with push_template"},
	{regexp.MustCompile(`detected as (hung|pending)|terminated by the reaper`), "the provisioner stopped answering during the build",
		"see that the provisioners and the control plane are well (diagnose_control_plane), and build again"},
	{regexp.MustCompile(`exceeded quota`), "", "raise the ResourceQuota of the namespace, or have the template ask for less"},
	{regexp.MustCompile(`is forbidden: User "system:serviceaccount:|cannot (create|get|list|patch|delete|watch) resource`), "",
		"give Coder's ServiceAccount the right in that namespace: spec.rbac.workspaceNamespaces of the control plane"},
	{regexp.MustCompile(`namespaces "[^"]*" not found`), "", "make the namespace, or correct it in the template"},
	{regexp.MustCompile(`Failed to (query available provider packages|install provider)|registry\.terraform\.io|Failed to resolve provider packages`), "",
		"see that the provisioners reach the Terraform registry or a mirror of it, and that the template names a version that exists"},
	{waitsForPods, "",
		"see why the pods of the workspace do not get ready"},
	{regexp.MustCompile(`connection refused|no such host|i/o timeout|no route to host`), "",
		"see that the provisioner reaches what the template talks to"},
	{regexp.MustCompile(`already exists`), "", "delete what is left of an earlier build, or have the template choose another name"},
	{regexp.MustCompile(`Error: `), "", "mend the template at the place that is named, and push it with push_template"},
}

// failedBuild says what went wrong with a build from Coder's error and its log.
func failedBuild(problem, log string) (what, shown, do string) {
	block, problem := terraformError(log), text.Clean(problem)
	said := strings.Join(slices.DeleteFunc([]string{block, problem}, func(s string) bool { return s == "" }), "\n")
	for _, trouble := range buildTroubles {
		if trouble.signs.MatchString(said) {
			what, do = trouble.what, trouble.do
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
		what = "Coder gives no reason"
	}
	shown = truncate.String(strings.TrimSpace(said), longestEvidence)
	if block == "" && log != "" {
		shown = tail(strings.TrimSpace(said+"\n"+log), longestEvidence)
	}
	if do == "" {
		do = "read its log, mend the template or the parameters, and build again"
	}
	return what, shown, do
}
