package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// build builds an image with a small program and returns the path of the tar.
func build(t *testing.T, mode os.FileMode, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/true\n"), mode); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.tar")
	args = append([]string{"-out", out, "-tag", "example.com/app:v1"}, args...)
	if err := run(append(args, program+":/app:755")); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSameInputSameBytes(t *testing.T) {
	args := []string{"-distroless", "-platform", "linux/arm64", "-user", "65532:65532", "-entrypoint", "/app,serve", "-label", "a=b"}
	first, err := os.ReadFile(build(t, 0o755, args...))
	if err != nil {
		t.Fatal(err)
	}
	// Another folder, another umask, another time.
	second, err := os.ReadFile(build(t, 0o700, args...))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the same program gives two different images")
	}
}

func TestDistroless(t *testing.T) {
	img, err := tarball.ImageFromPath(build(t, 0o755, "-distroless", "-platform", "linux/arm64", "-user", "65532:65532",
		"-entrypoint", "/app,serve", "-label", "a=b", "-gzip"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Architecture != "arm64" || cfg.Config.User != "65532:65532" || len(cfg.Config.Entrypoint) != 2 || cfg.Config.Labels["a"] != "b" {
		t.Errorf("config is %+v", cfg)
	}

	files := map[string]*tar.Header{}
	contents := map[string][]byte{}
	rc := mutate.Extract(img)
	defer rc.Close()
	for tr := tar.NewReader(rc); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Clean(h.Name)
		files[name] = h
		if contents[name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d:%d and is of %s", name, h.Uid, h.Gid, h.ModTime)
		}
	}
	if h := files["tmp"]; h == nil || h.Mode != 0o1777 {
		t.Errorf("/tmp is %+v", h)
	}
	if h := files["app"]; h == nil || h.Mode != 0o755 {
		t.Errorf("/app is %+v", h)
	}
	if !bytes.Contains(contents["etc/passwd"], []byte("nonroot:x:65532:65532:")) {
		t.Errorf("/etc/passwd is %q", contents["etc/passwd"])
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("there are no certificates")
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-tag", "a:b"},
		{"-out", "x", "-tag", "NOT A TAG"},
		{"-out", "x", "-tag", "example.com/app:v1", "-platform", "windows/amd64"},
		{"-out", "x", "-tag", "example.com/app:v1", "-label", "nothing"},
		{"-out", "x", "-tag", "example.com/app:v1", "/does/not/exist:/app"},
		{"-out", "x", "-tag", "example.com/app:v1", "-dir", "/tmp:999"},
	} {
		if err := run(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// TestDockerfileMakesTheSameImage compares the image settings in the Dockerfile with those in
// build.sh. This needs no container engine.
func TestDockerfileMakesTheSameImage(t *testing.T) {
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for instruction, flag := range map[string]string{"ENTRYPOINT": "-entrypoint", "USER": "-user", "WORKDIR": "-workdir"} {
		// The instruction of the last stage applies to the image.
		said := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(string(dockerfile), -1)
		given := regexp.MustCompile(flag + ` (\S+)`).FindStringSubmatch(string(script))
		if len(said) == 0 || given == nil {
			t.Errorf("%s or %s is missing", instruction, flag)
			continue
		}
		if last := strings.Trim(said[len(said)-1][1], `[]"`); last != given[1] {
			t.Errorf("the Dockerfile says %s %s, build.sh %s", instruction, last, given[1])
		}
	}
}
