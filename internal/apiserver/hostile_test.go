package apiserver

import (
	"archive/zip"
	"bytes"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// TestHostileCoder covers a Coder whose responses cost its reader the most. Its control plane is
// treated like one that is unreachable, and the other one is served as before.
func TestHostileCoder(t *testing.T) {
	kubetest.SkipWithRace(t)
	s := newSite(t, logged)
	s.start(t)
	before := heap()
	f, other := join(t, s), join(t, s)
	f.addWorkspace(t, "dev")
	other.addWorkspace(t, "dev")
	for _, hostile := range []coderdtest.Hostile{
		coderdtest.EndlessBody, coderdtest.GzipBomb, coderdtest.HugeHeader, coderdtest.DeepJSON, coderdtest.EmptyItems,
	} {
		remove := f.coder.Fail(coderdtest.Fault{Hostile: hostile})
		f.becomes(t, syncstatus.Stale)
		f.expect(t, string(hostile), map[string]expected{
			"list": {http.MethodGet, f.path("coderworkspaces"), "", http.StatusOK, true},
		})
		patch := map[string]string{"Content-Type": mergeMIME}
		for _, got := range []answer{
			f.do(t, http.MethodPatch, f.path("coderworkspaces/coder.ada.dev"), patch, `{"spec":{"running":false}}`),
			f.do(t, http.MethodGet, f.path("codertemplates/coder.starter/parameters"), nil, ""),
		} {
			// A slow reader meets the limit of time before that of the size.
			if got.status != http.StatusServiceUnavailable && got.status != http.StatusGatewayTimeout || len(got.body) > 4<<10 {
				t.Errorf("%s: HTTP %d, %s", hostile, got.status, got.body[:min(len(got.body), 500)])
			}
		}
		other.expect(t, string(hostile)+", the other one", map[string]expected{
			"list":       {http.MethodGet, other.path("coderworkspaces"), "", http.StatusOK, false},
			"parameters": {http.MethodGet, other.path("codertemplates/coder.starter/parameters"), "", http.StatusOK, false},
			"label":      {http.MethodPatch, other.path("coderworkspaces/coder.ada.dev"), `{"metadata":{"labels":{"app":"x"}}}`, http.StatusOK, false},
		})
		remove()
		f.becomes(t, syncstatus.Ready)
	}
	if more := heap() - before; more > 128 {
		t.Errorf("%d MiB more of heap are in use than before", more)
	}
}

// heap returns the heap in use, in MiB. Parallel tests would be included, so a test that calls it
// does not run in parallel.
func heap() int64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapInuse >> 20)
}

// TestUploadsAreLimited uploads archives whose unpacked size exceeds the limit through the whole
// server, six at a time.
func TestUploadsAreLimited(t *testing.T) {
	f := newFixture(t)
	var bomb bytes.Buffer
	w := zip.NewWriter(&bomb)
	entry, err := w.Create(mainTF)
	if err == nil {
		_, err = entry.Write(make([]byte, 41<<20))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			got := f.do(t, http.MethodPut, f.path("codertemplates/coder.starter/files"), nil, bomb.String())
			if got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "more than 40 MiB") {
				t.Errorf("HTTP %d %s", got.status, got.body)
			}
		})
	}
}
