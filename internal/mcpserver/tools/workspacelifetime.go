package tools

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// never takes a schedule away.
const never = "never"

// ttlMillis reads a duration; nil where none is given, and 0 for never.
func ttlMillis(ttl string) (*int64, error) {
	switch ttl {
	case "":
		return nil, nil
	case never:
		return ptr.To[int64](0), nil
	}
	d, err := time.ParseDuration(ttl)
	if err != nil || d < time.Minute {
		return nil, toolset.UsageError(fmt.Sprintf("ttl %q is no time after which a workspace stops: give at least 1m, for example 8h or 90m, or %s", ttl, never))
	}
	return ptr.To(d.Milliseconds()), nil
}

// autostartSchedule is nil where none is given, and empty for never.
func autostartSchedule(schedule string) *string {
	switch schedule {
	case "":
		return nil
	case never:
		return ptr.To("")
	default:
		return &schedule
	}
}
