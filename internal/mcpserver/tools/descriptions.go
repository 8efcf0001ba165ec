package tools

import "strings"

// descriptions contains the descriptions of arguments, by "tool.argument" or, for all tools
// that have the argument, by "argument". A jsonschema tag of the field takes precedence. A
// model reads all of them before each conversation, so each contains only what a model
// could get wrong.
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

	"change_control_plane.image":    "Coder image with tag, like ghcr.io/coder/coder:v2.34.8",
	"change_control_plane.replicas": "number of pods",
	"change_control_plane.restart":  "replace all pods, one after the other",

	"create_workspace.owner":     "user name in Coder",
	"create_workspace.name":      "the workspace's own name without dots, like dev",
	"create_workspace.template":  "organization.template, as list_templates names it",
	"create_workspace.versionID": "id of a template version; the active one if omitted",
	"create_workspace.preset":    "name of a preset of the template version",
	"create_workspace.running":   "start it at once",

	"update_workspace.automaticUpdates": "whether a start takes the active template version",
	"update_workspace.dormant":          "true locks it away, false brings it back",
	"set_workspace_running.running":     "true starts it, false stops it",
	"set_template_running.running":      "ignored: a template does not run",

	"list_workspaces.owner":    "user name in Coder",
	"list_workspaces.template": "template, or organization.template",
	"list_workspaces.phase":    "Pending, Starting, Running, Stopping, Stopped, Failed, Canceling, Canceled, Deleting or Deleted",
	"list_workspaces.running":  "only those that shall run, or shall not",

	"get_build_logs.workspace": "organization.owner.workspace; this or template",
	"get_build_logs.build":     "number of a build of the workspace; the latest if omitted",
	"get_build_logs.agent":     "agent of the workspace: what its scripts wrote, like the startup script",
	"get_build_logs.template":  "organization.template; this or workspace",
	"get_build_logs.versionID": "id of a version of the template; the latest if omitted",

	"promote_template_version.versionID": "id of the version, as get_template shows it",
	"get_template.files":                 "paths or patterns, like *.tf, of files to show with their text; * for all",
	"push_template.files":                "text by path; the whole source, unless keepFiles; a call may have 1 MiB",
	"push_template.keepFiles":            "keep the files that are not in files",
	"push_template.removeFiles":          "paths to remove; keeps the others",
	"push_template.create":               "create the template if it does not exist",
	"push_template.variables":            "Terraform variables by name; not for secrets",
	"push_template.versionName":          "unique name of the version; generated if omitted",
	"push_template.message":              "what changed, for people",

	"agent":   "agent of the workspace; needed if it has several",
	"path":    "absolute, relative to the agent's directory, or ~/…",
	"version": "version that read_workspace_file showed; fails if the file has another one",

	"list_workspace_files.namespace": "Kubernetes namespace of the workspace",
	"list_workspace_ports.namespace": "Kubernetes namespace of the workspace",

	"run_in_workspace.command":        "for the shell; an audit log records it, so give secrets as stdin",
	"run_in_workspace.directory":      "where to run it; the agent's directory if omitted",
	"run_in_workspace.stdin":          "standard input",
	"run_in_workspace.background":     "return at once with an id for get_workspace_command",
	"run_in_workspace.timeoutSeconds": "after this time it is stopped, unless it runs in the background",
	"run_in_workspace.limitBytes":     "most bytes of stdout, and of stderr; the middle is left out",
	"list_workspace_files.depth":      "levels of directories",
	"read_workspace_file.firstLine":   "from which line on, counted from 1",
	"read_workspace_file.maxLines":    "most lines",
	"read_workspace_file.firstByte":   "from which byte on, counted from 1; instead of firstLine",
	"read_workspace_file.limitBytes":  "most bytes",
	"write_workspace_file.content":    "all of the new content; the whole call may have 1 MiB as JSON",
	"edit_workspace_file.oldText":     "exact text with white space; must be in the file once",
	"edit_workspace_file.newText":     "what takes its place",
	"edit_workspace_file.replaceAll":  "replace all occurrences",

	"get_events.name": "object that the events are about; all if omitted",
	"get_events.kind": "its kind, like Pod or CoderControlPlane",
	"get_events.type": "all if omitted",

	"get_pod_logs.name":         "pod, as list_control_plane_pods shows it",
	"get_pod_logs.container":    "Coder's own if omitted",
	"get_pod_logs.previous":     "log of the container before its last restart",
	"get_pod_logs.sinceSeconds": "only the last seconds",
	"get_pod_logs.limitBytes":   "most bytes of log",
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
