//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// coderK8s runs a subcommand of the program, and returns both outputs and the exit
// code.
func coderK8s(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../bin/coder-k8s", args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("coder-k8s %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// testExport exports the samples, and applies the exported manifests. It
// must run while the samples of testMainJob exist.
func testExport(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "manifests")
	_, stderr, code := coderK8s(t, "export", "-n", sampleNamespace, "-o", folder)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, name := range []string{"templates/coder.hello.yaml", "workspaces/coder.admin.hello.yaml"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	// kubectl diff fails if there is a difference. With --server-side it would show
	// the annotation that kubectl itself writes for client-side apply.
	if out, err := tryKubectl(t, "diff", "-R", "-f", folder); err != nil {
		t.Errorf("kubectl diff: %v\n%s", err, out)
	}
	for _, way := range [][]string{{}, {"--server-side", "--force-conflicts"}} {
		kubectl(t, append([]string{"apply", "--dry-run=server", "-R", "-f", folder}, way...)...)
	}
	template := get(t, "-n", sampleNamespace, "codertemplate", "coder.hello")
	kubectl(t, "apply", "--server-side", "--force-conflicts", "-R", "-f", folder)
	after := get(t, "-n", sampleNamespace, "codertemplate", "coder.hello")
	if before, now := field(template, "status", "latestVersionID"), field(after, "status", "latestVersionID"); before != now {
		t.Errorf("applying what was exported made version %s after %s", now, before)
	}
}

// testSupportBundle collects a support bundle as an administrator, and checks what
// must and what must not be in it.
func testSupportBundle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	_, stderr, code := coderK8s(t, "support-bundle", "-o", file)
	if code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	all, names := unpacked(t, file)
	for _, want := range []string{
		"README.md", "versions.yaml", "problems.yaml", "installation/deployments/coder-k8s.yaml", "installation/readyz/coder-k8s-", "logs/coder-system/coder-k8s-",
		"namespaces/coder/codercontrolplanes/coder.yaml", "namespaces/coder/deployments/coder.yaml", "logs/coder/coder-",
		"namespaces/coder/coderworkspaces.yaml", "namespaces/coder/codertemplates.yaml", "namespaces/coder/events.txt", "namespaces/coder/secrets/coder-db.yaml",
	} {
		if !strings.Contains(names, "/"+want) {
			t.Errorf("the archive has no %s:\n%s", want, names)
		}
	}
	for _, secret := range []struct{ namespace, name, key string }{
		{sampleNamespace, "coder-operator-token", "token"},
		{sampleNamespace, "coder-operator-credentials", "password"},
		{sampleNamespace, "coder-initial-admin", "password"},
		{sampleNamespace, "coder-db", "url"},
		{"coder-system", "coder-k8s-apiserver-tls", "tls.key"},
	} {
		value := secretValue(t, secret.namespace, secret.name, secret.key)
		for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), url.QueryEscape(value)} {
			if value == "" || strings.Contains(all, form) {
				t.Errorf("the %s of Secret %s is told, or is empty", secret.key, secret.name)
			}
		}
	}
	// A caller with fewer permissions gets the rest.
	kubectl(t, "-n", sampleNamespace, "create", "serviceaccount", "reporter")
	defer kubectl(t, "-n", sampleNamespace, "delete", "serviceaccount", "reporter")
	kubectl(t, "-n", sampleNamespace, "create", "rolebinding", "reporter", "--clusterrole=view", "--serviceaccount="+sampleNamespace+":reporter")
	defer kubectl(t, "-n", sampleNamespace, "delete", "rolebinding", "reporter")
	mayGet(t, "system:serviceaccount:"+sampleNamespace+":reporter", sampleNamespace)
	less := filepath.Join(t.TempDir(), "less.tar.gz")
	_, stderr, code = coderK8s(t, "support-bundle", "-n", sampleNamespace, "-o", less, "--as=system:serviceaccount:"+sampleNamespace+":reporter")
	if code != 3 || !strings.Contains(stderr, "the secrets of namespace "+sampleNamespace+": you may not read it") {
		t.Errorf("exit code %d, want 3 and what is missing: %s", code, stderr)
	}
	if _, names := unpacked(t, less); !strings.Contains(names, "/namespaces/coder/codercontrolplanes/coder.yaml") {
		t.Errorf("what may be read is not there:\n%s", names)
	}
}

// unpacked returns the content of all files of an archive, and their names.
func unpacked(t *testing.T, file string) (content, names string) {
	t.Helper()
	raw, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	compressed, err := gzip.NewReader(raw)
	if err != nil {
		t.Fatal(err)
	}
	entries := tar.NewReader(compressed)
	var all, list strings.Builder
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return all.String(), list.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		list.WriteString(header.Name + "\n")
		if _, err := io.Copy(&all, entries); err != nil {
			t.Fatal(err)
		}
	}
}
