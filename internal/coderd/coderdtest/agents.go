package coderdtest

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// Agent is an agent of a running workspace. The server sets its id and its health.
type Agent = codersdk.WorkspaceAgent

// App is an app of an agent, as Coder describes it.
type App = codersdk.WorkspaceApp

// agentLog is the output of an agent's scripts.
type agentLog struct {
	sources []codersdk.WorkspaceAgentLogSource
	lines   []codersdk.WorkspaceAgentLog
}

// agentID returns the id of an agent. Each build has new agent ids.
func agentID(build uuid.UUID, name string) uuid.UUID { return uuid.NewSHA1(build, []byte(name)) }

// agentSDK completes an agent. The health follows db2sdk.WorkspaceAgent of Coder.
func (s *Server) agentSDK(build uuid.UUID, out Agent) Agent {
	out.ID, out.OperatingSystem, out.Architecture = agentID(build, out.Name), "linux", "amd64"
	switch {
	case out.Status != codersdk.WorkspaceAgentConnected && out.LifecycleState == codersdk.WorkspaceAgentLifecycleOff:
		out.Health.Reason = "agent is not running"
	case out.Status == codersdk.WorkspaceAgentTimeout:
		out.Health.Reason = "agent is taking too long to connect"
	case out.Status == codersdk.WorkspaceAgentDisconnected:
		out.Health.Reason = "agent has lost connection"
	case out.LifecycleState == codersdk.WorkspaceAgentLifecycleStartError:
		out.Health.Reason = "agent startup script exited with an error"
	case out.LifecycleState.ShuttingDown():
		out.Health.Reason = "agent is shutting down"
	default:
		out.Health.Healthy = true
	}
	if log := s.agentLogs[out.ID]; log != nil {
		out.LogSources = log.sources
	}
	return out
}

// WriteAgentLog adds lines to the log of a script, for an agent of the newest build.
func (s *Server) WriteAgentLog(id uuid.UUID, agent, script string, lines ...string) {
	s.change(id, func(w *workspace) {
		of := agentID(w.latest().ID, agent)
		log := s.agentLogs[of]
		if log == nil {
			log = &agentLog{}
			s.agentLogs[of], s.agentWorkspaces[of] = log, w
		}
		source := uuid.NewSHA1(of, []byte(script))
		if !slices.ContainsFunc(log.sources, func(known codersdk.WorkspaceAgentLogSource) bool { return known.ID == source }) {
			log.sources = append(log.sources, codersdk.WorkspaceAgentLogSource{WorkspaceAgentID: of, ID: source, DisplayName: script})
		}
		for _, line := range lines {
			s.lastLog++
			log.lines = append(log.lines, codersdk.WorkspaceAgentLog{
				ID: s.lastLog, CreatedAt: s.now(), Output: line, Level: codersdk.LogLevelInfo, SourceID: source,
			})
		}
		s.wakeReaders()
	})
}

func (s *Server) getAgent(r *request) {
	_, agent := s.pathAgent(r)
	r.write(http.StatusOK, agent)
}

// getAgentLogs also returns the log of an agent of an older build.
func (s *Server) getAgentLogs(r *request) {
	w := s.agentWorkspaces[r.id("agent")]
	if w == nil {
		w, _ = s.pathAgent(r)
	}
	w, agent := r.visible(w), r.id("agent")
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if !r.URL.Query().Has("follow") {
		r.write(http.StatusOK, s.agentLinesAfter(agent, after))
		return
	}
	r.unlocked = func() { s.followAgentLogs(r, w.ID, agent, after) }
}

// pathAgent returns the agent in the path. Agents of older builds are not found.
func (s *Server) pathAgent(r *request) (*workspace, Agent) {
	id := r.id("agent")
	for _, w := range s.index.workspaces {
		for _, a := range w.agents {
			if agentID(w.latest().ID, a.Name) == id && r.user.seesWorkspace(w) {
				return w, s.agentSDK(w.latest().ID, a)
			}
		}
	}
	notFound()
	return nil, Agent{}
}

func (s *Server) agentLinesAfter(agent uuid.UUID, after int64) []codersdk.WorkspaceAgentLog {
	out := []codersdk.WorkspaceAgentLog{}
	if log := s.agentLogs[agent]; log != nil {
		for _, line := range log.lines {
			if line.ID > after {
				out = append(out, line)
			}
		}
	}
	return out
}

// followAgentLogs sends the lines as they are written, until a new build of the workspace starts.
func (s *Server) followAgentLogs(r *request, id, agent uuid.UUID, after int64) {
	s.follow(r, func() (messages []any, ended bool) {
		if lines := s.agentLinesAfter(agent, after); len(lines) > 0 {
			messages, after = append(messages, lines), lines[len(lines)-1].ID
		}
		w := s.index.workspaces[id]
		return messages, w == nil || !slices.ContainsFunc(w.agents, func(a Agent) bool { return agentID(w.latest().ID, a.Name) == agent })
	})
}
