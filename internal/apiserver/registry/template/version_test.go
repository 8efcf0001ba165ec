package template

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// version returns a version that was created at the given minute.
func version(minute int, status string) coderd.TemplateVersion {
	return coderd.TemplateVersion{
		ID: uuid.New(), Status: status,
		CreatedAt: time.Date(2030, 1, 1, 0, minute, 0, 0, time.UTC),
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

// TestCachedVersionsAreLimited checks that the cached lists of versions need limited memory together.
func TestCachedVersionsAreLimited(t *testing.T) {
	cache := newVersionCache(clocktesting.NewFakeClock(time.Now()))
	text := strings.Repeat("x", maxCachedBytes/4)
	var keys []pageKey
	for range 6 {
		keys = append(keys, pageKey{controlPlane, uuid.New()})
		for range 2 {
			cache.keep(keys[len(keys)-1], page{versions: []coderd.TemplateVersion{{Message: text}}})
		}
	}
	for i, key := range keys {
		if _, ok := cache.pages.Get(key); ok != (i >= 3) {
			t.Errorf("list %d is cached: %t", i, ok)
		}
	}
	cache.forget(controlPlane, keys[5].template)
	cache.keep(keys[0], page{versions: []coderd.TemplateVersion{{Message: text}}})
	if n := cache.pages.Len(); n != 3 {
		t.Errorf("%d lists are cached after one was forgotten, want 3", n)
	}
}

func TestSuperfluous(t *testing.T) {
	limit := func(n int32) *int32 { return &n }
	active := version(1, buildFailed)
	old, middle, young := version(2, buildFailed), version(3, buildCanceled), version(5, buildFailed)
	p := page{active: active, versions: []coderd.TemplateVersion{active, old, middle, version(4, buildSucceeded), young, version(6, "running")}}
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

// TestBuildFailsDuringARead: a build fails after the list of versions was read and before the
// single version is read. Conditions and status show the same state.
func TestBuildFailsDuringARead(t *testing.T) {
	f := newFixture(t)
	f.coder.SetBuildResult("starter", coderdtest.BuildResult{Error: "no such image", Hold: true})
	f.must(f.update("coder.starter", files("# two")))
	release := make(chan struct{})
	f.coder.ResetRequests()
	f.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/templateversions/", Block: release})
	read := make(chan struct{})
	go func() {
		defer close(read)
		f.pass()
	}()
	polltest.Eventually(t, "the single version is read", func() error {
		if f.coder.Requests()["GET /api/v2/templateversions/{version}"] == 0 {
			return fmt.Errorf("Coder received %v", f.coder.Requests())
		}
		return nil
	})
	f.coder.FinishBuilds()
	close(release)
	<-read
	tmpl := f.get("coder.starter")
	if got := condition(tmpl, "Ready"); got != "False BuildFailed" || tmpl.Status.LatestVersionStatus != buildFailed || tmpl.Status.LatestVersionError != "no such image" {
		t.Errorf("Ready is %q, and the latest version is %q with the error %q", got, tmpl.Status.LatestVersionStatus, tmpl.Status.LatestVersionError)
	}
}

// TestVersionOfAnotherReplica: another replica served the update while this one had the versions in
// its cache. The status shows the new version at once.
func TestVersionOfAnotherReplica(t *testing.T) {
	f := newFixture(t)
	f.sync()
	leader := f.kind
	f.restart()
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "no such image"})
	f.must(f.update("coder.starter", files("# two")))
	f.kind = leader
	f.pass()
	f.mustBe("coder.starter", "False BuildFailed", "# two")
	status := f.get("coder.starter").Status
	if status.LatestVersionID == status.ActiveVersionID || status.LatestVersionStatus != buildFailed || status.LatestVersionError != "no such image" {
		t.Errorf("the latest version is %q with the error %q", status.LatestVersionStatus, status.LatestVersionError)
	}
}
