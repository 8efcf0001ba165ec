package template

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// allocated returns how many bytes f allocates. Memory that is collected meanwhile counts too, so
// it is more than what is in memory at any time.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestArchivesThatUnpackToMuch sends six archives at once whose unpacked size exceeds the limit.
func TestArchivesThatUnpackToMuch(t *testing.T) {
	kubetest.SkipWithRace(t)
	f := newFixture(t)
	many := map[string]string{}
	for i := range 2001 {
		many[fmt.Sprintf("f%d", i)] = ""
	}
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"bytes": {map[string]string{mainTF: strings.Repeat("\x00", 41<<20)}, `more than 40 MiB together, "main.tf" among them`},
		"files": {many, "there are 2001 files, and a template may have at most 2000"},
	} {
		bomb := zipOf(t, c.files)
		answers := make([]*answerTo, 6)
		bytes := allocated(func() {
			var wg sync.WaitGroup
			for i := range answers {
				wg.Go(func() { answers[i] = f.subresource(http.MethodPut, "coder.starter", "", bomb) })
			}
			wg.Wait()
		})
		for _, answer := range answers {
			if !apierrors.IsRequestEntityTooLargeError(answer.err) || !strings.Contains(answer.err.Error(), c.says) {
				t.Errorf("%s: %v; want 413 that says %q", name, answer.err, c.says)
			}
		}
		// Six archives in memory are over 600 MiB. With the race detector, sync.Pool drops a quarter of the decompressors.
		if bytes > 256<<20 {
			t.Errorf("%s: %d MiB were allocated for %d KiB", name, bytes>>20, len(bomb)>>10)
		}
	}
	if n := f.coder.Writes(); n != 0 {
		t.Errorf("%d writes", n)
	}
	if answer := f.subresource(http.MethodPut, "coder.starter", "", zipOf(t, map[string]string{mainTF: "# put"})); answer.err != nil {
		t.Errorf("afterwards: %v", answer.err)
	}
}

// TestTooManyUploads sends an archive while all slots for unpacking are in use.
func TestTooManyUploads(t *testing.T) {
	f := newFixture(t)
	archive := zipOf(t, map[string]string{mainTF: "# put"})
	put := func() *answerTo { return f.subresource(http.MethodPut, "coder.starter", "", archive) }
	var running []func()
	for range maxUnpacking {
		done, err := f.kind.unpacking.begin(f.ctx)
		f.must(err)
		running = append(running, done)
	}
	refused := func(answer *answerTo) {
		t.Helper()
		after, ok := apierrors.SuggestsClientDelay(answer.err)
		if !apierrors.IsTooManyRequests(answer.err) || !ok || after != tryAgain || !strings.Contains(answer.err.Error(), "2 template archives are being unpacked") {
			t.Errorf("%v, after %d s; want 429", answer.err, after)
		}
	}
	f.kind.unpacking.wait = time.Nanosecond
	refused(put())
	f.kind.unpacking.wait = time.Minute
	answers := make(chan *answerTo, maxWaiting)
	for range maxWaiting {
		go func() { answers <- f.subresource(http.MethodPut, "coder.starter", "", []byte("no archive")) }()
	}
	f.must(wait.PollUntilContextTimeout(f.ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return len(f.kind.unpacking.waiting) == maxWaiting, nil
	}))
	refused(put())
	update := f.update("coder.starter", files("# update"))
	refused(&answerTo{err: update})
	for _, done := range running {
		done()
	}
	for range maxWaiting {
		if answer := <-answers; !apierrors.IsInvalid(answer.err) {
			t.Errorf("one that waited: %v", answer.err)
		}
	}
	if answer := put(); answer.err != nil {
		t.Errorf("afterwards: %v", answer.err)
	}
	if n := len(f.kind.unpacking.running); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// nowhere discards a response, and counts its bytes.
type nowhere struct {
	header http.Header
	bytes  int
}

func (w *nowhere) Header() http.Header { return w.header }
func (w *nowhere) WriteHeader(int)     {}
func (w *nowhere) Write(p []byte) (int, error) {
	w.bytes += len(p)
	return len(p), nil
}

// getFiles downloads the archive of a template, and returns the value of the handler's panic.
func (f *fixture) getFiles(w http.ResponseWriter) (panicked any) {
	f.t.Helper()
	storage := f.kind.Subresources(oneStore{f})["files"].(rest.Connecter)
	handler, err := storage.Connect(f.ctx, "coder.starter", nil, &answerTo{ResponseRecorder: httptest.NewRecorder()})
	f.must(err)
	defer func() { panicked = recover() }()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/files", nil))
	return nil
}

// TestLargeArchivesAreStreamed reads an archive that is larger than the memory limit.
func TestLargeArchivesAreStreamed(t *testing.T) {
	kubetest.SkipWithRace(t)
	f := newFixture(t)
	version := f.coder.AddTemplateVersion(f.starter, "", map[string]string{mainTF: "# large", "image": strings.Repeat("\xff", 60<<20)})
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, version))
	var synced, bytes uint64
	synced = allocated(f.sync)
	w := &nowhere{header: http.Header{}}
	bytes = allocated(func() {
		if p := f.getFiles(w); p != nil {
			t.Errorf("it panicked: %v", p)
		}
	})
	if w.bytes < 60<<20 || w.header.Get("Content-Type") != "application/x-tar" {
		t.Errorf("%d bytes, %v", w.bytes, w.header)
	}
	if synced > 16<<20 || bytes > 16<<20 {
		t.Errorf("%d MiB were allocated to show it, and %d MiB to read it", synced>>20, bytes>>20)
	}
	tmpl := f.get("coder.starter")
	if tmpl.Spec.Files[mainTF] != "# large" || tmpl.Status.Source.FileCount != 2 || tmpl.Status.Source.SizeBytes < 60<<20 {
		t.Errorf("%+v, %d files in spec.files", tmpl.Status.Source, len(tmpl.Spec.Files))
	}
	err := f.update("coder.starter", files("# small"))
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "40 MiB") {
		t.Errorf("a change that would have to keep the image: %v", err)
	}
}

// TestDownloadThatBreaksOff checks that the connection is aborted, so that the client does not take
// half an archive for a complete one.
func TestDownloadThatBreaksOff(t *testing.T) {
	f := newFixture(t)
	f.coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/files/", Hostile: coderdtest.EndlessBody})
	w := &nowhere{header: http.Header{}}
	var bytes uint64
	var panicked any
	bytes = allocated(func() { panicked = f.getFiles(w) })
	if err, _ := panicked.(error); !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("it panicked with %v, want %v", panicked, http.ErrAbortHandler)
	}
	if w.bytes > 121<<20 || bytes > 16<<20 {
		t.Errorf("%d MiB were read, %d MiB allocated", w.bytes>>20, bytes>>20)
	}
}
