package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	recordstore "github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/user"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// mirrored is a mirror of a Coder that responds from memory.
type mirrored struct {
	mirror *mirror.Mirror
	board  *syncstatus.Board
	store  *recordstore.Store
}

func newMirrored(b *testing.B, client *coderd.Client) *mirrored {
	b.Helper()
	kept := recordstest.New(b)
	m := &mirrored{board: &syncstatus.Board{}, store: kept.Workspaces}
	provider := connections.NewStatic("team", client)
	metrics, err := mirror.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	config := registry.Config{Connections: provider, Records: kept, Clock: clock.RealClock{}}
	m.mirror = mirror.New(mirror.Config{
		Connections: provider, Records: kept, Board: m.board, Metrics: metrics, Hints: &mirror.Hints{}, Clock: clock.RealClock{}, Timing: mirror.DefaultTiming(),
		Held: func() bool { return true }, Released: func(string) bool { return false }, Members: func([]connections.Member) {},
		Unsettled: func(types.NamespacedName, coderd.Workspace) bool { return false },
		Gone:      func(types.NamespacedName, uuid.UUID) {}, Built: func(types.NamespacedName, uuid.UUID) {},
		Workspaces: mirror.Resource[coderd.Workspace]{
			Store: kept.Workspaces,
			Kind:  workspace.New(workspace.Config{Config: config}),
		},
		Templates: mirror.Resource[coderd.Template]{
			Store: kept.Templates,
			Kind:  template.New(template.Config{Config: config}),
		},
		Users: mirror.Resource[coderd.User]{Store: kept.Users, Kind: user.New(user.Config{Config: config})},
	})
	return m
}

// sync runs the mirror until it has all objects.
func (m *mirrored) sync(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	var running sync.WaitGroup
	running.Go(func() { m.mirror.Run(ctx) })
	err := until(ctx, time.Millisecond, func() error {
		if all, _ := m.board.All(); len(all) != 1 || all[0].State != syncstatus.Ready {
			return fmt.Errorf("not ready: %+v", all)
		}
		return nil
	})
	cancel()
	running.Wait()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFirstSync reads all workspaces of a Coder that responds from memory,
// compared with reading only its pages. The heap is that of the log: the fake's own
// heap is subtracted.
func BenchmarkFirstSync(b *testing.B) {
	for _, n := range []int{1_000, 50_000} {
		b.Run(fmt.Sprintf("workspaces=%d", n), func(b *testing.B) { benchmarkFirstSync(b, n) })
	}
}

func benchmarkFirstSync(b *testing.B, n int) {
	server := coderdtest.New(b)
	token := server.AddUser("operator", "owner")
	server.AddUser("ada")
	server.AddWorkspaces(n, "ada", server.AddTemplate("coder", "docker", map[string]string{"main.tf": "# one"}))
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token})
	if err != nil {
		b.Fatal(err)
	}
	var pages, synced time.Duration
	var heap uint64
	for b.Loop() {
		began := time.Now()
		for offset := 0; offset < n; offset += coderd.MaxWorkspacePage {
			if _, err := client.WorkspacePage(b.Context(), offset, coderd.MaxWorkspacePage); err != nil {
				b.Fatal(err)
			}
		}
		pages += time.Since(began)
		before := live()
		m := newMirrored(b, client)
		began = time.Now()
		m.sync(b)
		synced += time.Since(began)
		heap += live() - before
		if m.store.Table.Count(types.NamespacedName{Namespace: "team"}) != n {
			b.Fatalf("the log has %d objects, want %d", m.store.Table.Count(types.NamespacedName{Namespace: "team"}), n)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(pages.Seconds()/float64(b.N), "s-pages")
	b.ReportMetric(synced.Seconds()/float64(b.N), "s-sync")
	b.ReportMetric(synced.Seconds()/pages.Seconds(), "ratio")
	b.ReportMetric(float64(heap)/float64(b.N)/1e6, "MB-heap")
	b.ReportMetric(float64(heap)/float64(b.N)/float64(n), "B/workspace")
}

// live returns the size of the heap after a garbage collection.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
