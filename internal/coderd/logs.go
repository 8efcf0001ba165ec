package coderd

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"
)

// LogLine is one line that the build of a workspace or of a template version
// wrote.
type LogLine struct {
	// ID rises from line to line.
	ID        int64
	CreatedAt time.Time
	// Stage is what the build was doing, for example Planning infrastructure.
	Stage string
	// Level is trace, debug, info, warn or error.
	Level string
	// Source is provisioner or provisioner_daemon.
	Source string
	Output string
}

// LogStream gives the lines of a build one after the other. It is for one
// goroutine, and must be closed.
type LogStream struct{}

// Next waits for the next line. It is io.EOF after the last one: where the log is
// followed, the build has ended then.
func (s *LogStream) Next() (LogLine, error) { return LogLine{}, io.EOF }

// Close ends the stream.
func (s *LogStream) Close() error { return nil }

// BuildLogs reads the log of a workspace build: the lines whose ID is above after.
// With follow it goes on until the build has ended or ctx is done; without, it
// tells what there is.
func (c *Client) BuildLogs(ctx context.Context, build uuid.UUID, after int64, follow bool) (*LogStream, error) {
	return &LogStream{}, nil
}

// VersionLogs is BuildLogs for the build of a template version.
func (c *Client) VersionLogs(ctx context.Context, version uuid.UUID, after int64, follow bool) (*LogStream, error) {
	return &LogStream{}, nil
}
