package tools

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// Default size of a log excerpt, and its maximum.
	defaultLogLines = 200
	maxLogLines     = 5000
	defaultLogBytes = 64 << 10
	maxLogBytes     = 256 << 10

	workspaceLogResource = workspacePlural + "/log"
	templateLogResource  = templatePlural + "/log"
)

type getBuildLogsInput struct {
	Namespace string `json:"namespace"`
	Workspace string `json:"workspace,omitempty" jsonschema:"organization.owner.workspace; this or template"`
	Build     int32  `json:"build,omitempty" jsonschema:"number of a build of the workspace; the latest if omitted"`
	Agent     string `json:"agent,omitempty" jsonschema:"agent of the workspace: what its scripts wrote, like the startup script"`
	Template  string `json:"template,omitempty" jsonschema:"organization.template; this or workspace"`
	VersionID string `json:"versionID,omitempty" jsonschema:"id of a version of the template; the latest if omitted"`
	TailLines int    `json:"tailLines,omitempty" maximum:"5000"`
}

type getBuildLogsOutput struct {
	Build     loggedBuild `json:"build"`
	Logs      string      `json:"logs"`
	Truncated bool        `json:"truncated"`
	Message   string      `json:"message,omitempty"`
}

// loggedBuild is a build of a workspace, which has a number, or of a template version. For
// an older build of a workspace, the API returns only the log, so only Number is set.
type loggedBuild struct {
	Number     int32  `json:"number,omitempty"`
	Transition string `json:"transition,omitempty"`
	Version    string `json:"version,omitempty"`
	VersionID  string `json:"versionID,omitempty"`
	Status     string `json:"status,omitempty"`
	Error      string `json:"error,omitempty"`
}

func getBuildLogs(ctx context.Context, call *toolset.Call, in getBuildLogsInput) (getBuildLogsOutput, error) {
	switch {
	case (in.Workspace == "") == (in.Template == ""):
		return getBuildLogsOutput{}, toolset.UsageError("name either a workspace or a template")
	case in.Workspace != "" && in.VersionID != "":
		return getBuildLogsOutput{}, toolset.UsageError("versionID is for a template; the builds of a workspace have numbers: give build")
	case in.Agent != "" && (in.Template != "" || in.Build != 0):
		return getBuildLogsOutput{}, toolset.UsageError("agent is for the newest build of a workspace; leave build and template out")
	case in.Template != "" && in.Build != 0:
		return getBuildLogsOutput{}, toolset.UsageError("build is for a workspace; give versionID for a template")
	case in.Build < 0:
		return getBuildLogsOutput{}, toolset.UsageError("build counts from 1; leave it out for the newest one")
	}
	build, log, err := in.find(ctx, call)
	if err != nil {
		return getBuildLogsOutput{}, err
	}
	out := getBuildLogsOutput{Build: build}
	lines, bytes := buildLogSize(in.TailLines)
	if out.Logs, out.Truncated, err = log.Tail(ctx, call.Kube, lines, bytes); err != nil {
		return getBuildLogsOutput{}, err
	}
	switch {
	case out.Truncated:
		out.Message = fmt.Sprintf("only the newest lines are shown, at most %d KiB; a greater tailLines may return more", maxLogBytes>>10)
	case out.Logs == "":
		out.Message = "nothing has been written yet, or the log is not kept any more"
	}
	return out, nil
}

// find returns the build's details, as far as they are known, and the location of its log.
func (in getBuildLogsInput) find(ctx context.Context, call *toolset.Call) (loggedBuild, toolset.Subresource, error) {
	if in.Template != "" {
		return in.findVersion(ctx, call)
	}
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Workspace)
	if err != nil {
		return loggedBuild{}, toolset.Subresource{}, err
	}
	build := loggedBuild{Number: in.Build}
	if b := ws.Status.LatestBuild; b != nil && (in.Build == 0 || in.Build == b.Number) {
		build = loggedBuild{
			Number: b.Number, Transition: b.Transition, Version: b.TemplateVersionName, VersionID: b.TemplateVersionID,
			Status: b.Status, Error: excerpt(b.Error),
		}
	}
	var query url.Values
	if in.Agent != "" {
		query = url.Values{"source": {"agent"}, "agent": {in.Agent}}
	} else if build.Number != 0 {
		// Requests the build by number, so that the log belongs to the build described
		// above even if a newer one has started.
		query = url.Values{"build": {strconv.Itoa(int(build.Number))}}
	}
	return build, toolset.Aggregated(workspacePlural, in.Namespace, in.Workspace, "log", query), nil
}

func (in getBuildLogsInput) findVersion(ctx context.Context, call *toolset.Call) (loggedBuild, toolset.Subresource, error) {
	version, err := findTemplateVersion(ctx, call, in.Namespace, in.Template, in.VersionID)
	if err != nil {
		return loggedBuild{}, toolset.Subresource{}, err
	}
	build := loggedBuild{Version: toolset.CleanText(version.VersionName), VersionID: version.ID, Status: version.JobStatus, Error: excerpt(version.Error)}
	return build, templateLog(in.Namespace, in.Template, version.ID), nil
}

func templateLog(namespace, name, version string) toolset.Subresource {
	return toolset.Aggregated(templatePlural, namespace, name, "log", url.Values{"version": {version}})
}

// buildLogSize returns the limits for a log excerpt. The byte limit grows in proportion to
// the number of lines that are requested.
func buildLogSize(tailLines int) (lines, bytes int) {
	if tailLines <= 0 {
		tailLines = defaultLogLines
	}
	lines = min(tailLines, maxLogLines)
	return lines, min(max(defaultLogBytes, lines*(defaultLogBytes/defaultLogLines)), maxLogBytes)
}
