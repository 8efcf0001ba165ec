package flux

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Artifacts serves archives over HTTP, as Flux's source-controller does.
type Artifacts struct {
	mu       sync.Mutex
	archives map[string][]byte
}

// Artifact is an archive in the status of a source.
type Artifact struct {
	// Path of the archive on the server.
	Path string
	// Revision changes with the content.
	Revision string
	// Digest of the archive, for example sha256:01ab.
	Digest string
	// Size in bytes.
	Size int64
}

// Put makes an archive of files, by their paths.
func (a *Artifacts) Put(name string, files map[string]string) (Artifact, error) {
	archive, err := tarball(files)
	if err != nil {
		return Artifact{}, fmt.Errorf("making the archive %q: %w", name, err)
	}
	sum := sha256.Sum256(archive)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	made := Artifact{
		Path: name + "/" + hex.EncodeToString(sum[:]) + ".tar.gz", Revision: "main@" + digest, Digest: digest, Size: int64(len(archive)),
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.archives == nil {
		a.archives = map[string][]byte{}
	}
	a.archives["/"+made.Path] = archive
	return made, nil
}

// ServeHTTP implements http.Handler.
func (a *Artifacts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	archive, ok := a.archives[r.URL.Path]
	a.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	// A client that disconnected does not need an error.
	_, _ = w.Write(archive)
}

// tarball returns an archive that is the same for the same files.
func tarball(files map[string]string) ([]byte, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(files[name])); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
