package coderd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// LogLine is one line in the log of a workspace build or template version build, or in the output
// of an agent's script.
type LogLine struct {
	// ID increases from line to line.
	ID        int64
	CreatedAt time.Time
	// Stage is the current stage of the build, for example Planning infrastructure. In the log of
	// an agent it is the name of the script.
	Stage string
	// Level is trace, debug, info, warn or error.
	Level string
	// Source is provisioner, provisioner_daemon or agent.
	Source string
	Output string
}

func (l *LogLine) size() int64 {
	return int64(lineBytes + len(l.Stage) + len(l.Level) + len(l.Source) + len(l.Output))
}

// LogStream returns the lines of a log one by one. It is not safe for concurrent use, and must be
// closed.
type LogStream struct {
	client *Client
	source logSource
	op     string
	follow bool

	// after is the ID of the last line that was returned.
	after int64
	// lines are the lines that were read but not returned yet, and size is their size. complete
	// reports that no lines will follow.
	lines    []LogLine
	size     int64
	complete bool
	// held is the part of the client's heldLogs for lines.
	held atomic.Int64
	live liveLines
	// idle is the number of consecutive connections without a line.
	idle int
}

// sdkLogLine is a line in Coder's format. The last two fields are only set for agents.
type sdkLogLine struct {
	codersdk.ProvisionerJobLog
	AgentLevel codersdk.LogLevel `json:"level"`
	SourceID   uuid.UUID         `json:"source_id"`
}

// logSource is the location of a log, and the functions to follow it.
type logSource struct {
	path   string
	follow func(ctx context.Context, after int64) (liveLines, error)
	active func(ctx context.Context) (bool, error)
	// line converts a line. It returns false for a line to skip.
	line func(sdkLogLine) (LogLine, bool)
	// silence is multiplied with Client.logSilence.
	silence time.Duration
}

// liveLines receives lines as they are written, from a build or from an agent, until it is closed.
// The closer is nil without a connection.
type liveLines struct {
	build  <-chan codersdk.ProvisionerJobLog
	agent  <-chan []codersdk.WorkspaceAgentLog
	closer io.Closer
}

const (
	// maxIdleConnections is the maximum number of consecutive connections that end without a line
	// before the build has finished.
	maxIdleConnections = 3
	// logSilence is the time without a line after which Coder is asked whether the build is still
	// active. Coder does not end the log of a build that is cancelled before it started.
	logSilence = 20 * time.Second
	// maxHeldLogBytes limits the lines of all logs of a Coder that were read but not returned yet. A log
	// of less than smallBytes does not count, so that clients that read slowly block only large logs.
	maxHeldLogBytes = 64 << 20
	// lineBytes is the size of a line without its texts.
	lineBytes = 128
)

// BuildLogs reads the log of a workspace build: the lines whose ID is greater than after. With
// follow the stream continues until the build has finished. Without it, the stream ends after the
// existing lines.
func (c *Client) BuildLogs(ctx context.Context, build uuid.UUID, after int64, follow bool) (*LogStream, error) {
	return c.openLogs(ctx, fmt.Sprintf("reading the log of workspace build %s", build), after, follow, logSource{
		path: fmt.Sprintf("/api/v2/workspacebuilds/%s/logs", build),
		follow: func(ctx context.Context, after int64) (live liveLines, err error) {
			live.build, live.closer, err = c.sdk.WorkspaceBuildLogsAfter(ctx, build, after)
			return live, err
		},
		line: jobLine, silence: 1,
		active: func(ctx context.Context) (bool, error) {
			b, err := c.sdk.WorkspaceBuild(ctx, build)
			return b.Job.Status.Active(), err
		},
	})
}

// VersionLogs is like BuildLogs, for the build of a template version.
func (c *Client) VersionLogs(ctx context.Context, version uuid.UUID, after int64, follow bool) (*LogStream, error) {
	return c.openLogs(ctx, fmt.Sprintf("reading the log of template version %s", version), after, follow, logSource{
		path: fmt.Sprintf("/api/v2/templateversions/%s/logs", version),
		follow: func(ctx context.Context, after int64) (live liveLines, err error) {
			live.build, live.closer, err = c.sdk.TemplateVersionLogsAfter(ctx, version, after)
			return live, err
		},
		line: jobLine, silence: 1,
		active: func(ctx context.Context) (bool, error) {
			v, err := c.sdk.TemplateVersion(ctx, version)
			return v.Job.Status.Active(), err
		},
	})
}

// openLogs reads the existing lines, so that an error about a missing build is returned before the
// first line. ctx must end with the request for the log.
func (c *Client) openLogs(ctx context.Context, op string, after int64, follow bool, source logSource) (*LogStream, error) {
	s := &LogStream{client: c, source: source, op: op, follow: follow, after: after}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	// The library drops a stream without Close if the client does not accept its media type.
	context.AfterFunc(ctx, s.release)
	return s, nil
}

// Next waits for the next line. It returns io.EOF after the last one. With follow this means that
// the build has finished.
func (s *LogStream) Next(ctx context.Context) (LogLine, error) {
	for {
		switch {
		case len(s.lines) > 0:
			line := s.lines[0]
			s.lines[0] = LogLine{} // The array would keep its texts.
			s.lines = s.lines[1:]
			s.dropped(line)
			s.after, s.idle = line.ID, 0
			return line, nil
		case s.complete:
			return LogLine{}, io.EOF
		case s.live.closer == nil:
			if err := s.connect(ctx); err != nil {
				return LogLine{}, err
			}
		}
		if err := s.receive(ctx); err != nil {
			return LogLine{}, err
		}
	}
}

// receive waits for a line, or for the end of the connection.
func (s *LogStream) receive(ctx context.Context) error {
	silence := time.NewTimer(s.source.silence * s.client.logSilence)
	defer silence.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line, open := <-s.live.build:
		if open {
			s.takeNew(sdkLogLine{ProvisionerJobLog: line})
			return nil
		}
	case lines, open := <-s.live.agent:
		if open {
			for _, l := range lines {
				line := sdkLogLine{AgentLevel: l.Level, SourceID: l.SourceID}
				line.ID, line.CreatedAt, line.Output = l.ID, l.CreatedAt, l.Output
				s.takeNew(line)
			}
			return nil
		}
	case <-silence.C:
		s.idle = 0
	}
	// There was no line for some time, or the connection ended: because the build finished, or
	// because of a network failure.
	_ = s.Close()
	return s.catchUp(ctx)
}

// catchUp reads the existing lines and whether more will follow. It first asks whether the build is
// active. If it is not, the lines that are read afterwards are complete.
func (s *LogStream) catchUp(ctx context.Context) error {
	return s.client.call(ctx, s.op, func(ctx context.Context) error {
		active := false
		if s.follow {
			var err error
			if active, err = s.source.active(ctx); err != nil {
				return err
			}
		}
		query := map[string]string{}
		if s.after > 0 {
			query["after"] = strconv.FormatInt(s.after, 10)
		}
		var lines []sdkLogLine
		if err := s.client.request(ctx, http.MethodGet, s.source.path, nil, http.StatusOK, into(&lines), withQuery(query)); err != nil {
			return err
		}
		for _, line := range lines {
			s.take(line)
		}
		s.complete = !active
		// All large logs of this Coder together have a limit.
		s.release()
		if s.size <= smallBytes {
			return nil
		}
		all := s.client.recorder.heldLogs.Add(s.size)
		s.held.Store(s.size)
		if all > maxHeldLogBytes {
			s.release()
			s.lines, s.size = nil, 0
			return &Error{Op: s.op, StatusCode: http.StatusTooManyRequests, Message: "too many large logs are being read now; try again later"}
		}
		return nil
	})
}

// dropped reduces held by lines that are not kept any more.
func (s *LogStream) dropped(lines ...LogLine) {
	for i := range lines {
		s.size -= lines[i].size()
	}
	left := s.size
	if left <= smallBytes {
		left = 0
	}
	// If release was called concurrently, nothing is counted any more.
	if before := s.held.Load(); left < before && s.held.CompareAndSwap(before, left) {
		s.client.recorder.heldLogs.Add(left - before)
	}
}

// release sets held to zero. It may be called concurrently.
func (s *LogStream) release() { s.client.recorder.heldLogs.Add(-s.held.Swap(0)) }

// connect follows the log after the last returned line.
func (s *LogStream) connect(ctx context.Context) error {
	if s.idle++; s.idle > maxIdleConnections {
		err := errors.New("the connection was closed repeatedly although the build is still running")
		return &Error{Op: s.op, Message: err.Error(), Err: err}
	}
	return s.client.call(ctx, s.op, func(ctx context.Context) error {
		// The timeout applies only to the handshake. The connection stays open.
		ctx, cancel := context.WithTimeout(ctx, s.client.sdk.HTTPClient.Timeout)
		defer cancel()
		live, err := s.source.follow(ctx, s.after)
		if err == nil {
			s.live = live
		}
		return err
	})
}

// Close ends the stream.
func (s *LogStream) Close() error {
	s.release()
	closer := s.live.closer
	s.live = liveLines{}
	if closer == nil {
		return nil
	}
	return closer.Close()
}

// Tail drops all but the last lines of those that were already read.
func (s *LogStream) Tail(lines int64) {
	if most := int64(len(s.lines)); lines < most {
		s.dropped(s.lines[:most-lines]...)
		// Clone, so that the dropped lines can be freed.
		s.lines = slices.Clone(s.lines[most-lines:])
	}
}

// takeNew takes a line, unless a new connection repeats it.
func (s *LogStream) takeNew(l sdkLogLine) {
	if l.ID > s.after {
		s.take(l)
	}
}

func (s *LogStream) take(l sdkLogLine) {
	if line, wanted := s.source.line(l); wanted {
		s.lines, s.size = append(s.lines, line), s.size+line.size()
	} else {
		s.after = max(s.after, l.ID)
	}
}

func jobLine(l sdkLogLine) (LogLine, bool) {
	return LogLine{ID: l.ID, CreatedAt: l.CreatedAt, Stage: boundName(l.Stage), Level: string(l.Level), Source: string(l.Source), Output: l.Output}, true
}

// agentSilence multiplies Client.logSilence for the log of an agent, which may be silent for longer
// than the log of a build.
const agentSilence = 15

// UnknownScriptError reports that an agent has no script of a name.
type UnknownScriptError struct {
	Script  string
	Scripts []string
}

func (e *UnknownScriptError) Error() string {
	return fmt.Sprintf("script is %q, and must be one of %q", e.Script, e.Scripts)
}

// AgentLogs reads the output of an agent's scripts: the lines whose ID is greater than after. If
// script is not empty, it returns only the lines of that script. With follow the stream continues
// until a new build of the workspace starts.
func (c *Client) AgentLogs(ctx context.Context, workspace, agent uuid.UUID, script string, after int64, follow bool) (*LogStream, error) {
	read, err := get[struct {
		Sources []struct {
			ID          uuid.UUID `json:"id"`
			DisplayName string    `json:"display_name"`
		} `json:"log_sources"`
	}](ctx, c, fmt.Sprintf("reading agent %s", agent), fmt.Sprintf("/api/v2/workspaceagents/%s", agent), nil)
	if err != nil {
		return nil, err
	}
	names := map[uuid.UUID]string{}
	for _, source := range read.Sources[:min(len(read.Sources), maxTexts)] {
		names[source.ID] = boundName(strings.Join(strings.Fields(source.DisplayName), " "))
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
