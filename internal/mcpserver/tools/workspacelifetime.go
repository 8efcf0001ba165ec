package tools

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// never is the argument that removes a schedule.
const never = "never"

// ttlMillis parses a duration. It returns nil for "" and 0 for never.
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

// autostartSchedule returns nil for "" and a pointer to "" for never.
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
