package template

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// version is made at the given minute.
func version(minute int, message, status string) coderd.TemplateVersion {
	return coderd.TemplateVersion{
		ID: uuid.New(), Message: message, Status: status,
		CreatedAt: time.Date(2030, 1, 1, 0, minute, 0, 0, time.UTC),
	}
}

func TestNext(t *testing.T) {
	active := version(5, messagePending, buildSucceeded)
	for name, c := range map[string]struct {
		version   coderd.TemplateVersion
		overtaken bool
		want      string
	}{
		"waits":                     {version(6, messagePending, buildPending), false, ""},
		"is built":                  {version(6, messagePending, buildRunning), false, ""},
		"is being canceled":         {version(6, messagePending, "canceling"), false, ""},
		"was built":                 {version(6, messagePending, buildSucceeded), false, messagePromoted},
		"failed":                    {version(6, messagePending, buildFailed), false, messageFailed},
		"was canceled":              {version(6, messagePending, buildCanceled), false, messageFailed},
		"has a newer one":           {version(6, messagePending, buildSucceeded), true, messageSuperseded},
		"is older than the active":  {version(4, messagePending, buildSucceeded), false, messageSuperseded},
		"is active, but not marked": {active, false, messagePromoted},
	} {
		if got := next(c.version, active, c.overtaken); got != c.want {
			t.Errorf("a version that %s: %q, want %q", name, got, c.want)
		}
	}
}

func TestShownOf(t *testing.T) {
	first := version(1, messageFirst, buildSucceeded)
	active := version(2, messagePromoted, buildSucceeded)
	for name, c := range map[string]struct {
		newer []coderd.TemplateVersion
		want  int // Index in newer, or -1 for the active one.
	}{
		"alone":                       {nil, -1},
		"a draft of a person":         {[]coderd.TemplateVersion{version(3, "", buildSucceeded)}, -1},
		"one that is built":           {[]coderd.TemplateVersion{version(3, messagePending, buildRunning)}, 0},
		"one that failed":             {[]coderd.TemplateVersion{version(3, messageFailed, buildFailed)}, 0},
		"two":                         {[]coderd.TemplateVersion{version(3, messageFailed, buildFailed), version(4, messagePending, buildPending)}, 1},
		"one that was given up":       {[]coderd.TemplateVersion{version(3, messageSuperseded, buildSucceeded)}, -1},
		"rolled back":                 {[]coderd.TemplateVersion{version(3, messagePromoted, buildSucceeded)}, -1},
		"a draft over one that waits": {[]coderd.TemplateVersion{version(3, messagePending, buildPending), version(4, "", buildSucceeded)}, 0},
	} {
		want := active
		if c.want >= 0 {
			want = c.newer[c.want]
		}
		all := append([]coderd.TemplateVersion{first, active}, c.newer...)
		if got := shownOf(all, active); got.ID != want.ID {
			t.Errorf("%s: shown is %q of minute %d", name, got.Message, got.CreatedAt.Minute())
		}
	}
}
