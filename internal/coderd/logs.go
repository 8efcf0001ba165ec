package coderd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// LogLine is one line that the build of a workspace or of a template version wrote,
// or a script of an agent.
type LogLine struct {
	// ID rises from line to line.
	ID        int64
	CreatedAt time.Time
	// Stage is what the build was doing, for example Planning infrastructure. Of an
	// agent it is the name of the script.
	Stage string
	// Level is trace, debug, info, warn or error.
	Level string
	// Source is provisioner, provisioner_daemon or agent.
	Source string
	Output string
}

// LogStream gives the lines of a build one after the other. It is for one
// goroutine, and must be closed.
type LogStream struct {
	client *Client
	source logSource
	op     string
	follow bool

	// after is the ID of the last line that was told.
	after int64
	// lines are those that were read and not told. complete says that there are no
	// others.
	lines    []LogLine
	complete bool
	// live gives lines as they are written, until closer ends it.
	live   <-chan sdkLogLine
	closer io.Closer
	// idle counts the connections in a row that gave no line.
	idle int
}

// sdkLogLine is a line as Coder tells it. The last two are of agents.
type sdkLogLine struct {
	codersdk.ProvisionerJobLog
	AgentLevel codersdk.LogLevel `json:"level"`
	SourceID   uuid.UUID         `json:"source_id"`
}

// logSource is where a log is, and how to learn whether its build has ended.
type logSource struct {
	path   string
	follow func(ctx context.Context, after int64) (<-chan sdkLogLine, io.Closer, error)
	active func(ctx context.Context) (bool, error)
	// line makes a line of Coder's, or leaves it out.
	line func(sdkLogLine) (LogLine, bool)
	// silence is after how many times Client.logSilence Coder is asked whether the log
	// goes on.
	silence time.Duration
}

const (
	// maxIdleConnections is how often a log is asked for again that ends before its
	// build does without having told a line.
	maxIdleConnections = 3
	// logSilence is after how long without a line Coder is asked whether the build
	// goes on. It forgets to end the log of a build that is cancelled before it
	// began.
	logSilence = 20 * time.Second
)

// BuildLogs reads the log of a workspace build: the lines whose ID is above after.
// With follow it goes on until the build has ended; without, it tells what there
// is.
func (c *Client) BuildLogs(ctx context.Context, build uuid.UUID, after int64, follow bool) (*LogStream, error) {
	return c.openLogs(ctx, fmt.Sprintf("reading the log of workspace build %s", build), after, follow, logSource{
		path: fmt.Sprintf("/api/v2/workspacebuilds/%s/logs", build),
		follow: func(ctx context.Context, after int64) (<-chan sdkLogLine, io.Closer, error) {
			return jobLines(c.sdk.WorkspaceBuildLogsAfter(ctx, build, after))
		},
		line: jobLine, silence: 1,
		active: func(ctx context.Context) (bool, error) {
			b, err := c.sdk.WorkspaceBuild(ctx, build)
			return b.Job.Status.Active(), err
		},
	})
}

// VersionLogs is BuildLogs for the build of a template version.
func (c *Client) VersionLogs(ctx context.Context, version uuid.UUID, after int64, follow bool) (*LogStream, error) {
	return c.openLogs(ctx, fmt.Sprintf("reading the log of template version %s", version), after, follow, logSource{
		path: fmt.Sprintf("/api/v2/templateversions/%s/logs", version),
		follow: func(ctx context.Context, after int64) (<-chan sdkLogLine, io.Closer, error) {
			return jobLines(c.sdk.TemplateVersionLogsAfter(ctx, version, after))
		},
		line: jobLine, silence: 1,
		active: func(ctx context.Context) (bool, error) {
			v, err := c.sdk.TemplateVersion(ctx, version)
			return v.Job.Status.Active(), err
		},
	})
}

// openLogs reads what is there, so that a build which does not exist is told
// before the first line.
func (c *Client) openLogs(ctx context.Context, op string, after int64, follow bool, source logSource) (*LogStream, error) {
	s := &LogStream{client: c, source: source, op: op, follow: follow, after: after}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Next waits for the next line. It is io.EOF after the last one: where the log is
// followed, the build has ended then.
func (s *LogStream) Next(ctx context.Context) (LogLine, error) {
	for {
		switch {
		case len(s.lines) > 0:
			line := s.lines[0]
			s.lines = s.lines[1:]
			s.after, s.idle = line.ID, 0
			return line, nil
		case s.complete:
			return LogLine{}, io.EOF
		case s.live == nil:
			if err := s.connect(ctx); err != nil {
				return LogLine{}, err
			}
		}
		if err := s.receive(ctx); err != nil {
			return LogLine{}, err
		}
	}
}

// receive waits for one line, or for the end of the connection.
func (s *LogStream) receive(ctx context.Context) error {
	silence := time.NewTimer(s.source.silence * s.client.logSilence)
	defer silence.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line, open := <-s.live:
		if open {
			// A line may be told twice where a connection takes the place of another.
			if line.ID > s.after {
				s.take(line)
			}
			return nil
		}
	case <-silence.C:
		s.idle = 0
	}
	// Coder ends the connection with the build, and so does whatever stands between.
	_ = s.Close()
	return s.catchUp(ctx)
}

// catchUp reads the lines that are there and learns whether there will be more.
// It asks that first, because the lines that are read then are all of them.
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
		return nil
	})
}

// connect follows the log from the last line on.
func (s *LogStream) connect(ctx context.Context) error {
	if s.idle++; s.idle > maxIdleConnections {
		err := errors.New("the connection ended again and again although the build goes on")
		return &Error{Op: s.op, Message: err.Error(), Err: err}
	}
	return s.client.call(ctx, s.op, func(ctx context.Context) error {
		// The time is that of the handshake alone. The connection stays.
		ctx, cancel := context.WithTimeout(ctx, s.client.sdk.HTTPClient.Timeout)
		defer cancel()
		var err error
		s.live, s.closer, err = s.source.follow(ctx, s.after)
		return err
	})
}

// Close ends the stream.
func (s *LogStream) Close() error {
	closer := s.closer
	s.live, s.closer = nil, nil
	if closer == nil {
		return nil
	}
	return closer.Close()
}

// Tail leaves out all but the last lines of those that are there now.
func (s *LogStream) Tail(lines int64) {
	if most := int64(len(s.lines)); lines < most {
		s.lines = s.lines[most-lines:]
	}
}

func (s *LogStream) take(l sdkLogLine) {
	if line, wanted := s.source.line(l); wanted {
		s.lines = append(s.lines, line)
	} else {
		s.after = max(s.after, l.ID)
	}
}

func jobLine(l sdkLogLine) (LogLine, bool) {
	return LogLine{ID: l.ID, CreatedAt: l.CreatedAt, Stage: l.Stage, Level: string(l.Level), Source: string(l.Source), Output: l.Output}, true
}

func jobLines(lines <-chan codersdk.ProvisionerJobLog, closer io.Closer, err error) (<-chan sdkLogLine, io.Closer, error) {
	if err != nil {
		return nil, nil, err
	}
	out, ended := eachLine(lines, func(l codersdk.ProvisionerJobLog) []sdkLogLine { return []sdkLogLine{{ProvisionerJobLog: l}} }, closer)
	return out, ended, nil
}

// eachLine turns what one channel holds into lines, until that ends or the returned
// closer is closed.
func eachLine[T any](in <-chan T, lines func(T) []sdkLogLine, closer io.Closer) (<-chan sdkLogLine, io.Closer) {
	out, ended := make(chan sdkLogLine), &endedLines{Closer: closer, done: make(chan struct{})}
	go func() {
		defer close(out)
		for item := range in {
			for _, line := range lines(item) {
				select {
				case out <- line:
				case <-ended.done:
					return
				}
			}
		}
	}()
	return out, ended
}

// endedLines ends a connection, and the goroutine that reads from it.
type endedLines struct {
	io.Closer
	done chan struct{}
	once sync.Once
}

// Close implements io.Closer.
func (e *endedLines) Close() error {
	e.once.Do(func() { close(e.done) })
	return e.Closer.Close()
}
