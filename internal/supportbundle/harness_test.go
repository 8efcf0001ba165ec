package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// bundle is what a run gave.
type bundle struct {
	files          map[string]string
	stdout, stderr string
	code           int
	raw            []byte
}

// all is everything that anybody gets to see.
func (b bundle) all() string {
	var out strings.Builder
	for name, content := range b.files {
		out.WriteString(name + "\n" + content + "\n")
	}
	return out.String() + b.stdout + b.stderr
}

// run makes a bundle of the server with the command line.
func run(t *testing.T, k *kubeAPI, args ...string) bundle {
	t.Helper()
	check := func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error) {
		return []installation.Problem{{Object: "APIService v1alpha1.aggregation.coder.com", What: "is missing", Do: "apply config/apiserver"}}, nil
	}
	return runChecked(t, k, check, args...)
}

func runChecked(t *testing.T, k *kubeAPI, check checkFunc, args ...string) bundle {
	t.Helper()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	cmd := command(streams, func() time.Time { return noon }, check)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	code := cli.Execute(t.Context(), cmd, append([]string{"--kubeconfig", k.kubeconfig(t), "-o", file}, args...), streams)
	b := bundle{files: map[string]string{}, stdout: out.String(), stderr: errs.String(), code: code}
	b.raw, b.files = unpack(t, file)
	return b
}

// unpack reads an archive. Names are without the folder that all share.
func unpack(t *testing.T, file string) ([]byte, map[string]string) {
	t.Helper()
	raw, files := readAll(t, file), map[string]string{}
	if raw == nil {
		return nil, files
	}
	compressed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	entries := tar.NewReader(compressed)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return raw, files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		folder, name, _ := strings.Cut(header.Name, "/")
		if folder != "coder-k8s-support-20261121T120000Z" || path.Clean(name) != name {
			t.Errorf("entry %q stands in no folder of its own", header.Name)
		}
		files[name] = string(content)
	}
}

func readAll(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return raw
}
