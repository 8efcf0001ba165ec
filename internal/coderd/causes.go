package coderd

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/terraformerror"
)

// causeTimeout limits how long the log of a failed build is read.
const causeTimeout = 5 * time.Second

// BuildCause returns Terraform's error from the log of a workspace build, as one line. It returns
// an empty string if the log contains none.
func (c *Client) BuildCause(ctx context.Context, build uuid.UUID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, causeTimeout)
	defer cancel()
	stream, err := c.BuildLogs(ctx, build, 0, false)
	return causeIn(ctx, stream, err)
}

// VersionCause is like BuildCause, for the build of a template version.
func (c *Client) VersionCause(ctx context.Context, version uuid.UUID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, causeTimeout)
	defer cancel()
	stream, err := c.VersionLogs(ctx, version, 0, false)
	return causeIn(ctx, stream, err)
}

func causeIn(ctx context.Context, stream *LogStream, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	cause := terraformerror.Cause(func(yield func(stage, line string) bool) {
		for {
			var line LogLine
			if line, err = stream.Next(ctx); err != nil || !yield(line.Stage, line.Output) {
				return
			}
		}
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return cause, err
}
