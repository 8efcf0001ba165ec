//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// manifests returns a file with the manifests of an installation, as a user applies them.
func manifests(t *testing.T, installation string) string {
	t.Helper()
	return printed(t, exec.CommandContext(t.Context(), "../../hack/manifests.sh", installation))
}

// printed returns a file with what a command prints.
func printed(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("%s: %v", strings.Join(command.Args, " "), err)
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// testWaysOfInstallation changes from one installation to another, while a Coder stays
// unchanged.
func testWaysOfInstallation(t *testing.T) {
	runScript(t, "../../test/manifests/cluster-test.sh")
}

// testHelmChart installs, changes and removes a release of the operator's chart.
func testHelmChart(t *testing.T) {
	runScript(t, "../../test/chart/cluster-test.sh")
}

// runScript runs one of the scripts that are tests themselves, and prints its output.
func runScript(t *testing.T, script string) {
	t.Helper()
	// Longer than all their waits together.
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, script).CombinedOutput()
	t.Logf("\n%s", out)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

// testPrometheus scrapes the operator with a real Prometheus, and runs every query
// of the alerts and of the dashboard.
func testPrometheus(t *testing.T) {
	runScript(t, "../../test/monitoring/cluster-test.sh")
}

// testNothingSecretIsTold searches logs, Events, conditions and other output
// for each secret of the sample control plane.
func testNothingSecretIsTold(t *testing.T) {
	told := kubectl(t, "-n", "coder-system", "logs", "deploy/coder-k8s") +
		kubectl(t, "get", "ccp,deployments,pods,jobs,configmaps,leases,coderworkspaces,codertemplates,events,events.events.k8s.io", "-A", "-o", "yaml")
	if jwt := regexp.MustCompile(`eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`).FindString(told); jwt != "" {
		t.Errorf("a token with which people come to the MCP server or to Kubernetes is told: %.20s...", jwt)
	}
	for _, secret := range []struct{ namespace, name, key string }{
		{sampleNamespace, "coder-operator-token", "token"},
		{sampleNamespace, "coder-operator-credentials", "password"},
		{sampleNamespace, "coder-initial-admin", "password"},
	} {
		value := secretValue(t, secret.namespace, secret.name, secret.key)
		if len(value) < 12 {
			t.Errorf("the %s of Secret %s has only %d characters", secret.key, secret.name, len(value))
		}
		if strings.Contains(told, value) || strings.Contains(told, base64.StdEncoding.EncodeToString([]byte(value))) {
			t.Errorf("the %s of Secret %s is told", secret.key, secret.name)
		}
	}
}

// testRemove deletes everything, from the workspace to the operator.
func testRemove(t *testing.T) {
	explain(t, sampleNamespace)
	kubectl(t, "-n", sampleNamespace, "delete", "coderworkspace", "coder.admin.hello", "--timeout=5m")
	client := login(t, sampleNamespace, "coder")
	if _, err := client.WorkspaceByName(t.Context(), "admin", "hello"); !coderd.IsNotFound(err) {
		t.Errorf("the workspace is still in Coder: %v", err)
	}
	kubectl(t, "-n", sampleNamespace, "delete", "codertemplate", "coder.hello", "--timeout=5m")

	if tokens := tokensOf(t, client); len(tokens) != 1 {
		t.Fatalf("the operator has not one token before the deletion: %v", tokens)
	}
	start := time.Now()
	kubectl(t, "-n", sampleNamespace, "delete", "ccp", "coder", "--timeout=5m")
	t.Logf("control plane deleted after %.1f s", time.Since(start).Seconds())
	if n := query(t, "coder", "SELECT count(*) FROM api_keys WHERE token_name LIKE 'coder-k8s-operator-%'"); n != "0" {
		t.Errorf("%s tokens of the operator are still valid in Coder", n)
	}

	kubectl(t, "delete", "namespace", sampleNamespace, "--timeout=5m")
	// Whole namespaces were deleted with their control planes: the operator
	// removes their finalizers, and must be running to do so.
	for _, ns := range []string{"trouble-db", "trouble-image", "trouble-owner", "users"} {
		start := time.Now()
		kubectl(t, "wait", "--for=delete", "namespace/"+ns, "--timeout=5m")
		t.Logf("namespace %s was gone after %.1f s more", ns, time.Since(start).Seconds())
	}
	// The deletion of the namespace may be faster than kubectl.
	kubectl(t, "delete", "-f", manifests(t, "default"), "--ignore-not-found", "--timeout=5m")
	out := kubectl(t, "get", "crd,clusterrole,clusterrolebinding,apiservice", "-o", "name")
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "/coder-k8s-") || strings.Contains(line, "coder.com") {
			t.Errorf("left behind: %s", line)
		}
	}
}
