package plugin

import (
	"archive/tar"
	"bytes"
	"runtime"
	"strings"
	"testing"
)

// TestSparseArchive checks that a sparse file, which needs a few bytes in the archive, is not expanded
// in memory if it is larger than a template can be.
func TestSparseArchive(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	// tar.Writer refuses records of sparse files, so they get their names afterwards. The content of
	// the file is its number of fragments.
	err := w.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: 512, Format: tar.FormatPAX, PAXRecords: map[string]string{
		"XXX.sparse.major": "1", "XXX.sparse.minor": "0", "XXX.sparse.name": "main.tf", "XXX.sparse.realsize": "1073741824",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(append([]byte("0\n"), make([]byte, 510)...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sparse := bytes.ReplaceAll(archive.Bytes(), []byte("XXX.sparse"), []byte("GNU.sparse"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := readTemplateArchive(bytes.NewReader(sparse))
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "has more than 20 MiB") {
		t.Errorf("%d files, %v", len(found), err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 2*maxBytes>>20 {
		t.Errorf("it took %d MiB of memory", took)
	}
}
