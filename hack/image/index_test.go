package main

import (
	"bytes"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestIndex pushes one name for two platforms to a registry, and pulls it for each platform.
func TestIndex(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/app:v1"
	dir := filepath.Join(t.TempDir(), "layout")
	args := []string{"-out", dir, "-push", to}
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		args = append(args, build(t, 0o755, "-distroless", "-gzip", "-platform", platform))
	}
	var stdout bytes.Buffer
	if err := runIndex(args, &stdout); err != nil {
		t.Fatal(err)
	}

	ref, err := name.NewTag(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img); err != nil {
			t.Error(err)
		}
		if cfg, err := img.ConfigFile(); err != nil || cfg.Architecture != arch {
			t.Errorf("a node of %s gets an image of %v: %v", arch, cfg, err)
		}
	}
	written, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(written); err != nil {
		t.Error(err)
	}
	pushed, err := remote.Head(ref)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := written.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(stdout.String()); got != digest.String() || got != pushed.Digest.String() {
		t.Errorf("printed %s, written %s, pushed %s", got, digest, pushed.Digest)
	}
}

func TestIndexRefuses(t *testing.T) {
	amd64 := build(t, 0o755, "-platform", "linux/amd64")
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing to join":      {[]string{"-out", t.TempDir() + "/x"}, "usage: image index"},
		"nowhere to put it":    {[]string{amd64}, "usage: image index"},
		"one platform twice":   {[]string{"-out", t.TempDir() + "/x", amd64, amd64}, "are both for linux/amd64"},
		"a directory is there": {[]string{"-out", t.TempDir(), amd64}, "is there already"},
		"no image":             {[]string{"-out", t.TempDir() + "/x", "/does/not/exist"}, "/does/not/exist"},
		"no name":              {[]string{"-push", "not a name", amd64}, `-push "not a name"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := runIndex(tc.args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}
