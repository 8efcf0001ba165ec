package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// bundle is the result of a run.
type bundle struct {
	files          map[string]string
	stdout, stderr string
	code           int
	raw            []byte
}

// all returns all output of a run.
func (b bundle) all() string {
	var out strings.Builder
	for name, content := range b.files {
		out.WriteString(name + "\n" + content + "\n")
	}
	return out.String() + b.stdout + b.stderr
}

// run runs the command against the server.
func run(t *testing.T, k *kubeAPI, args ...string) bundle {
	t.Helper()
	check := func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error) {
		return []installation.Problem{{Object: "APIService v1alpha1.aggregation.coder.com", What: "is missing", Do: "apply install.yaml"}}, nil
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

// unpack reads an archive. It removes the common folder from the names.
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

// overAtTheEnd is a transport whose response ends normally at the moment of the client's
// timeout, as when a server notices that the connection is closed.
type overAtTheEnd struct {
	begun string
	over  context.CancelFunc
}

// RoundTrip implements http.RoundTripper.
func (o overAtTheEnd) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader(o.begun), ending(func() { o.over() }))
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(body), Request: r,
	}, nil
}

// ending is an empty reader that calls a function when it is read.
type ending func()

// Read implements io.Reader.
func (e ending) Read([]byte) (int, error) {
	e()
	return 0, io.EOF
}

// cutOff returns a collector whose context ends while it reads the end of a response.
func cutOff(t *testing.T, begun string) (*collector, context.Context) {
	t.Helper()
	ctx, over := context.WithCancel(t.Context())
	t.Cleanup(over)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://kube-apiserver", Transport: overAtTheEnd{begun, over}})
	if err != nil {
		t.Fatal(err)
	}
	return &collector{kube: kube, since: time.Hour, archive: newArchive(1 << 20), redactor: &redaction.Redactor{}}, ctx
}
