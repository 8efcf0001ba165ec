package coderd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// agentSilence multiplies Client.logSilence for the log of an agent, which may be silent for longer
// than the log of a build.
const agentSilence = 15

// UnknownScriptError reports that an agent has no script of a name.
type UnknownScriptError struct {
	Script  string
	Scripts []string
}

// Error implements error.
func (e *UnknownScriptError) Error() string {
	return fmt.Sprintf("script is %q, and must be one of %q", e.Script, e.Scripts)
}

// AgentLogs reads the output of an agent's scripts: the lines whose ID is greater than after. If
// script is not empty, it returns only the lines of that script. With follow the stream continues
// until a new build of the workspace starts.
func (c *Client) AgentLogs(ctx context.Context, workspace, agent uuid.UUID, script string, after int64, follow bool) (*LogStream, error) {
	names, err := c.scriptNames(ctx, agent)
	if err != nil {
		return nil, err
	}
	op := fmt.Sprintf("reading the log of agent %s", agent)
	all := slices.Sorted(maps.Values(names))
	if script != "" && !slices.ContainsFunc(all, func(name string) bool { return strings.EqualFold(name, script) }) {
		return nil, &UnknownScriptError{Script: script, Scripts: all}
	}
	return c.openLogs(ctx, op, after, follow, logSource{
		path: fmt.Sprintf("/api/v2/workspaceagents/%s/logs", agent),
		follow: func(ctx context.Context, after int64) (live liveLines, err error) {
			live.agent, live.closer, err = c.sdk.WorkspaceAgentLogsAfter(ctx, agent, after, true)
			return live, err
		},
		active: func(ctx context.Context) (bool, error) {
			w, err := c.Workspace(ctx, workspace)
			return slices.ContainsFunc(w.Agents, func(a Agent) bool { return a.ID == agent }), err
		},
		line: func(l sdkLogLine) (LogLine, bool) {
			name, known := names[l.SourceID]
			if !known {
				name = "agent"
			}
			line := LogLine{ID: l.ID, CreatedAt: l.CreatedAt, Stage: name, Level: string(l.AgentLevel), Source: "agent", Output: l.Output}
			return line, script == "" || strings.EqualFold(name, script)
		},
		silence: agentSilence,
	})
}

// scriptNames returns the names of the sources of an agent's log.
func (c *Client) scriptNames(ctx context.Context, agent uuid.UUID) (map[uuid.UUID]string, error) {
	type agentJSON struct {
		Sources []struct {
			ID          uuid.UUID `json:"id"`
			DisplayName string    `json:"display_name"`
		} `json:"log_sources"`
	}
	read, err := get[agentJSON](ctx, c, fmt.Sprintf("reading agent %s", agent), fmt.Sprintf("/api/v2/workspaceagents/%s", agent), nil)
	names := map[uuid.UUID]string{}
	for _, source := range read.Sources[:min(len(read.Sources), maxTexts)] {
		names[source.ID] = boundName(strings.Join(strings.Fields(source.DisplayName), " "))
	}
	return names, err
}
