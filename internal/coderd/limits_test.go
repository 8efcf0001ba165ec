package coderd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// allocated returns the number of bytes that f allocates, including those of the fake server. It
// includes memory that is freed in between, so it is more than the peak.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// questions returns one request per class of limits.
func questions(client *coderd.Client) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"buildinfo":  func(ctx context.Context) error { _, err := client.BuildInfo(ctx); return err },
		"templates":  func(ctx context.Context) error { _, err := client.Templates(ctx); return err },
		"workspaces": func(ctx context.Context) error { _, err := client.WorkspacePage(ctx, 0, 1000); return err },
		"archive":    func(ctx context.Context) error { _, err := client.DownloadArchive(ctx, uuid.New()); return err },
		"log":        func(ctx context.Context) error { _, err := client.BuildLogs(ctx, uuid.New(), 0, false); return err },
		"evaluation": func(ctx context.Context) error {
			_, err := client.EvaluateParameters(ctx, uuid.New(), uuid.New(), nil)
			return err
		},
	}
}

// TestHostileServer calls a server whose responses are as expensive as possible for the client.
func TestHostileServer(t *testing.T) {
	kubetest.SkipWithRace(t)
	const most = 256 << 20
	for _, hostile := range coderdtest.HostileResponses() {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusServiceUnavailable} {
			server := coderdtest.New(t)
			server.Fail(coderdtest.Fault{Hostile: hostile, Status: status})
			timeout := 20 * time.Second
			if hostile == coderdtest.SlowDrip {
				timeout = 100 * time.Millisecond
			}
			client, err := coderd.New(coderd.Config{URL: server.URL, Token: "t", Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			for name, ask := range questions(client) {
				t.Run(fmt.Sprintf("%s/%d/%s", hostile, status, name), func(t *testing.T) {
					var err error
					bytes := allocated(func() { err = ask(t.Context()) })
					t.Logf("%d KiB: %v", bytes>>10, err)
					var known *coderd.Error
					if !errors.As(err, &known) {
						t.Fatalf("%v, want an error", err)
					}
					if bytes > most {
						t.Errorf("%d MiB were allocated", bytes>>20)
					}
					if len(err.Error()) > 2<<10 {
						t.Errorf("the error has %d bytes", len(err.Error()))
					}
				})
			}
		}
	}
}

// TestResponseLimits checks the error message for each limit. The error is IsUnreachable, because
// the result of the request is unknown.
func TestResponseLimits(t *testing.T) {
	kubetest.SkipWithRace(t)
	server := coderdtest.New(t)
	client := newClient(t, server, "t")
	for name, c := range map[string]struct {
		hostile  coderdtest.Hostile
		question string
		says     string
	}{
		"endless":       {coderdtest.EndlessBody, "buildinfo", "to GET /api/v2/buildinfo is larger than 4 MiB, so it is not read; check that this is the address of a Coder"},
		"gzip bomb":     {coderdtest.GzipBomb, "buildinfo", "to GET /api/v2/buildinfo is larger than 4 MiB"},
		"evaluation":    {coderdtest.EmptyItems, "evaluation", "to POST /api/v2/templateversions/{}/dynamic-parameters/evaluate has more than 20000 items"},
		"list":          {coderdtest.GzipBomb, "templates", "to GET /api/v2/templates is larger than 16 MiB"},
		"log":           {coderdtest.GzipBomb, "log", "to GET /api/v2/workspacebuilds/{}/logs is larger than 16 MiB"},
		"workspace":     {coderdtest.GzipBomb, "workspaces", "to GET /api/v2/workspaces has an item that is larger than 8 MiB, so it is not read; a workspace, or a page of workspaces, is too large"},
		"nested":        {coderdtest.DeepJSON, "buildinfo", "is nested more than 64 levels deep"},
		"many items":    {coderdtest.EmptyItems, "templates", "has more than 20000 items"},
		"many lines":    {coderdtest.EmptyItems, "log", "has more than 100000 items"},
		"large header":  {coderdtest.HugeHeader, "buildinfo", "server response headers exceeded 65536 bytes"},
		"headers first": {coderdtest.HugeHeader, "archive", "server response headers exceeded 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			defer server.Fail(coderdtest.Fault{Hostile: c.hostile})()
			err := questions(client)[c.question](t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v; want %q", err, c.says)
			}
			if !coderd.IsUnreachable(err) || coderd.IsTooLarge(err) != (c.hostile != coderdtest.HugeHeader) {
				t.Errorf("unreachable: %v, too large: %v", coderd.IsUnreachable(err), coderd.IsTooLarge(err))
			}
		})
	}
}

// TestLargeWorkspaces reads workspaces whose agents have long scripts.
func TestLargeWorkspaces(t *testing.T) {
	kubetest.SkipWithRace(t)
	script := func(size int) string { return `{"script":"` + strings.Repeat("x", size) + `"}` }
	for name, c := range map[string]struct {
		workspaces int
		agent      string
		says       string
	}{
		"one of 7 MiB":         {1, script(7 << 20), ""},
		"one of 8 MiB":         {1, script(8 << 20), "has an item that is larger than 8 MiB"},
		"thirty of 2 MiB":      {30, script(2 << 20), ""},
		"forty of 2 MiB":       {40, script(2 << 20), "is larger than 64 MiB"},
		"one with many values": {1, "{}" + strings.Repeat(",{}", 100_000), "has an item with more than 100000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			workspace := `{"name":"dev","latest_build":{"resources":[{"agents":[` + c.agent + `]}]}}`
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"workspaces":[`+workspace)
				for range c.workspaces - 1 {
					_, _ = io.WriteString(w, ","+workspace)
				}
				_, _ = io.WriteString(w, fmt.Sprintf(`],"count":%d}`, c.workspaces))
			}))
			defer web.Close()
			client, err := coderd.New(coderd.Config{URL: web.URL, Token: "t", Timeout: polltest.Timeout()})
			if err != nil {
				t.Fatal(err)
			}
			page, err := client.WorkspacePage(t.Context(), 0, 1000)
			if c.says == "" && (err != nil || len(page.Workspaces) != c.workspaces) {
				t.Errorf("%d workspaces, %v", len(page.Workspaces), err)
			}
			if c.says != "" && (!coderd.IsTooLarge(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v; want %q", err, c.says)
			}
		})
	}
}

// TestHostileServersTogether calls many hostile servers and a normal one concurrently.
func TestHostileServersTogether(t *testing.T) {
	kubetest.SkipWithRace(t)
	// The process has a memory limit in all installations, too.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	good := coderdtest.New(t)
	client := newClient(t, good, good.AddUser("ada", "owner"))
	template := good.AddTemplate("coder", "small", nil)
	for i := range 300 {
		good.AddWorkspace("ada", template, fmt.Sprintf("w%d", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		for _, hostile := range coderdtest.HostileResponses() {
			server := coderdtest.New(t)
			server.Fail(coderdtest.Fault{Hostile: hostile})
			attacked := newClient(t, server, "t")
			for _, ask := range questions(attacked) {
				wg.Go(func() {
					for range 3 {
						_ = ask(ctx)
					}
				})
			}
		}
	}
	var peak uint64
	for range 5 {
		page, err := client.WorkspacePage(t.Context(), 0, 1000)
		if err != nil || len(page.Workspaces) != 300 {
			t.Errorf("%d workspaces, %v", len(page.Workspaces), err)
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		peak = max(peak, memory.HeapInuse)
	}
	cancel()
	wg.Wait()
	t.Logf("at most %d MiB of heap", peak>>20)
	// About 200 MiB; without limits more than 3 GiB.
	if peak > 1<<30 {
		t.Errorf("%d MiB of heap were in use", peak>>20)
	}
}

// TestVersionsWithoutEnd calls servers that always return another page.
func TestVersionsWithoutEnd(t *testing.T) {
	for name, version := range map[string]string{"small": "{}", "large": `{"message":"` + strings.Repeat("x", 4<<10) + `"}`} {
		t.Run(name, func(t *testing.T) {
			page := []byte("[" + strings.Repeat(version+",", 199) + version + "]")
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(page)
			}))
			defer web.Close()
			client, err := coderd.New(coderd.Config{URL: web.URL, Token: "t", OnUnreachable: func() { t.Error("Coder answers") }})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.TemplateVersions(t.Context(), uuid.New())
			if err == nil || !strings.Contains(err.Error(), "more than 20000 versions, or versions of more than 16 MiB; archive") {
				t.Error(err)
			}
		})
	}
}

// TestTextsOfCoderAreCut checks that texts from Coder are truncated in objects.
func TestTextsOfCoderAreCut(t *testing.T) {
	long := "x" + strings.Repeat("\u20ac", 60<<10)
	tags := map[string]string{"!" + long: long}
	for i := range 1000 {
		tags[fmt.Sprint(i)] = "x"
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]any{
			"version": long, "message": long, "detail": long, "name": long, "template_name": long, "owner_name": long, "display_name": long,
			"description": long, "latest_build": map[string]any{"status": long, "reason": long, "transition": long, "job": map[string]any{"error": long}},
			"job": map[string]any{"error": long, "status": long, "tags": tags},
		}
		if strings.HasSuffix(r.URL.Path, "/first") {
			w.WriteHeader(http.StatusBadRequest)
			answer["validations"] = []map[string]any{{"field": long, "detail": long}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer web.Close()
	client, err := coderd.New(coderd.Config{URL: web.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	info, _ := client.BuildInfo(ctx)
	template, _ := client.Template(ctx, uuid.New())
	version, _ := client.TemplateVersion(ctx, uuid.New())
	workspace, _ := client.Workspace(ctx, uuid.New())
	_, err = client.HasFirstUser(ctx)
	if n := len(version.ProvisionerTags); n != 100 {
		t.Errorf("%d tags of a version, want 100", n)
	}
	for name, got := range map[string]struct {
		text  string
		limit int
	}{
		"version of Coder": {info.Version, 256}, "template": {template.Name, 256}, "display name": {template.DisplayName, 256},
		"description": {template.Description, 4 << 10}, "template version": {version.Name, 256}, "build of a version": {version.Error, 4 << 10},
		"tags of a version": {longest(version.ProvisionerTags), 256}, "message of a version": {version.Message, 4 << 10}, "workspace": {workspace.Name, 256}, "owner": {workspace.OwnerName, 256},
		"build": {workspace.LatestBuild.Error, 4 << 10}, "status": {workspace.LatestBuild.Status, 256}, "reason": {workspace.LatestBuild.Reason, 256},
		"transition": {string(workspace.LatestBuild.Transition), 256}, "error": {fmt.Sprint(err), 6 << 10},
	} {
		if got.text == "" || len(got.text) > got.limit || !utf8.ValidString(got.text) {
			t.Errorf("%s: %d bytes, valid: %v; want 1 to %d", name, len(got.text), utf8.ValidString(got.text), got.limit)
		}
	}
}

// longest returns the longest key or value.
func longest(texts map[string]string) (out string) {
	for k, v := range texts {
		for _, s := range []string{k, v} {
			if len(s) > len(out) {
				out = s
			}
		}
	}
	return out
}
