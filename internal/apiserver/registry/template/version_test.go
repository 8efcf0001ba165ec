package template

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// version returns a version that was created at the given minute.
func version(minute int, message, status string) coderd.TemplateVersion {
	return coderd.TemplateVersion{
		ID: uuid.New(), Message: message, Status: status,
		CreatedAt: time.Date(2030, 1, 1, 0, minute, 0, 0, time.UTC),
	}
}

func TestNextMark(t *testing.T) {
	active := version(5, messagePending, buildSucceeded)
	for name, c := range map[string]struct {
		version   coderd.TemplateVersion
		overtaken bool
		want      string
	}{
		"waits":                     {version(6, messagePending, buildPending), false, ""},
		"is built":                  {version(6, messagePending, "running"), false, ""},
		"is being canceled":         {version(6, messagePending, "canceling"), false, ""},
		"was built":                 {version(6, messagePending, buildSucceeded), false, messagePromoted},
		"failed":                    {version(6, messagePending, buildFailed), false, messageFailed},
		"was canceled":              {version(6, messagePending, buildCanceled), false, messageFailed},
		"has a newer one":           {version(6, messagePending, buildSucceeded), true, messageSuperseded},
		"is older than the active":  {version(4, messagePending, buildSucceeded), false, messageSuperseded},
		"is active, but not marked": {active, false, messagePromoted},
	} {
		if got := nextMark(c.version, active, c.overtaken); got != c.want {
			t.Errorf("a version that %s: %q, want %q", name, got, c.want)
		}
	}
}

func TestMarkedShown(t *testing.T) {
	first := version(1, "", buildSucceeded)
	active := version(2, messagePromoted, buildSucceeded)
	for name, c := range map[string]struct {
		newer []coderd.TemplateVersion
		want  int // Index in newer, or -1 for none.
	}{
		"alone":                       {nil, -1},
		"a draft of a person":         {[]coderd.TemplateVersion{version(3, "", buildSucceeded)}, -1},
		"one that is built":           {[]coderd.TemplateVersion{version(3, messagePending, "running")}, 0},
		"one that failed":             {[]coderd.TemplateVersion{version(3, messageFailed, buildFailed)}, 0},
		"two":                         {[]coderd.TemplateVersion{version(3, messageFailed, buildFailed), version(4, messagePending, buildPending)}, 1},
		"one that was given up":       {[]coderd.TemplateVersion{version(3, messageSuperseded, buildSucceeded)}, -1},
		"rolled back":                 {[]coderd.TemplateVersion{version(3, messagePromoted, buildSucceeded)}, -1},
		"a draft over one that waits": {[]coderd.TemplateVersion{version(3, messagePending, buildPending), version(4, "", buildSucceeded)}, 0},
	} {
		got, ok := markedShown(page{versions: append([]coderd.TemplateVersion{first, active}, c.newer...), active: active})
		if ok != (c.want >= 0) || ok && got.ID != c.newer[c.want].ID {
			t.Errorf("%s: shown is %q of minute %d, %t", name, got.Message, got.CreatedAt.Minute(), ok)
		}
	}
}

func TestReleaseIsOpen(t *testing.T) {
	before, mine, other := uuid.New(), uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		release *release
		active  uuid.UUID
		want    bool
	}{
		"none":               {nil, before, false},
		"waits for Coder":    {&release{Over: before}, before, true},
		"is built":           {&release{Over: before, VersionID: mine}, before, true},
		"is active":          {&release{Over: before, VersionID: mine}, mine, false},
		"was overtaken":      {&release{Over: before, VersionID: mine}, other, false},
		"is settled":         {&release{Over: before, VersionID: mine, Settled: true}, before, false},
		"was the first":      {&release{VersionID: mine}, mine, false},
		"lost to the person": {&release{Over: before}, other, false},
	} {
		if got := c.release.open(c.active); got != c.want {
			t.Errorf("a release that %s is open: %t", name, got)
		}
	}
}

func TestSuperfluous(t *testing.T) {
	limit := func(n int32) *int32 { return &n }
	active := version(1, "", buildFailed)
	old, middle, young := version(2, "", buildFailed), version(3, "", buildCanceled), version(5, "", buildFailed)
	p := page{active: active, versions: []coderd.TemplateVersion{active, old, middle, version(4, "", buildSucceeded), young, version(6, "", "running")}}
	asked := intent{Release: &release{Over: active.ID, VersionID: old.ID}, FailedVersionsHistoryLimit: limit(0)}
	for name, c := range map[string]struct {
		intent intent
		want   []uuid.UUID
	}{
		"three are kept":        {intent{}, nil},
		"one is kept":           {intent{FailedVersionsHistoryLimit: limit(1)}, []uuid.UUID{middle.ID, old.ID}},
		"none":                  {intent{FailedVersionsHistoryLimit: limit(0)}, []uuid.UUID{young.ID, middle.ID, old.ID}},
		"but what is asked for": {asked, []uuid.UUID{young.ID, middle.ID}},
	} {
		var got []uuid.UUID
		for _, v := range superfluous(p, c.intent) {
			got = append(got, v.ID)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %d are archived, want %d", name, len(got), len(c.want))
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: another one is archived", name)
			}
		}
	}
}

func TestAnIntentThatCannotBeRead(t *testing.T) {
	f := newFixture(t)
	items, err := f.watcher.Templates(f.ctx)
	f.must(err)
	broken := &metadata.Record{ControlPlane: controlPlane, Kind: info.Kind, Name: "coder.starter", Intent: []byte(`{"release": 1}`)}
	if obj, err := f.kind.Object(f.ctx, f.connection(), items[0], broken, nil); err == nil {
		t.Errorf("%v", obj)
	}
	if _, err := f.kind.Settle(f.ctx, f.connection(), items[0], broken); err == nil {
		t.Error("it is settled")
	}
}
