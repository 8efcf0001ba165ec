package tools

import "strings"

// descriptions contains the descriptions of arguments that several tools have, by "argument" or, for
// one tool, by "tool.argument". All others are jsonschema tags of their fields, which take precedence. A
// model reads all of them before each conversation, so each contains only what a model could get wrong.
var descriptions = map[string]string{
	"namespace":      "Kubernetes namespace of the object: that of its control plane",
	"cursor":         "nextCursor of the previous answer",
	"limit":          "most items in one answer",
	"dryRun":         "check only, change nothing",
	"wait":           "return when the work is done",
	"timeoutSeconds": "how long wait may take",
	"confirm":        "name of the object, only after the user agreed",
	"tailLines":      "lines from the end of the log",
	"autostart":      "cron with time zone, like CRON_TZ=Europe/Berlin 30 9 * * 1-5, or never",
	"parameters":     "values by name of the template's parameters, as get_template shows them",

	"agent":   "agent of the workspace; needed if it has several",
	"path":    "absolute, relative to the agent's directory, or ~/…",
	"version": "version that read_workspace_file showed; fails if the file has another one",

	"list_workspace_files.namespace": "Kubernetes namespace of the workspace",
	"list_workspace_ports.namespace": "Kubernetes namespace of the workspace",
}

func describeArgument(tool, argument string) string {
	if text := descriptions[tool+"."+argument]; text != "" {
		return text
	}
	switch {
	case argument == "namespace" && strings.HasPrefix(tool, "list_") && tool != "list_control_plane_pods":
		return "all namespaces if omitted"
	case argument != "name":
		return descriptions[argument]
	case strings.Contains(tool, "template"):
		return "organization.template, as list_templates names it"
	case strings.Contains(tool, "workspace"):
		return "organization.owner.workspace, as list_workspaces names it"
	}
	return "CoderControlPlane, as list_control_planes names it"
}
