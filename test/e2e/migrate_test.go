//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const migratedNamespace = "migrated"

// testMigrate installs Coder with its own Helm chart, transfers it to the operator and
// back to Helm, and checks that its pod is never replaced.
func testMigrate(t *testing.T) {
	explain(t, migratedNamespace)
	chart, helm := coderChart(t), helmProgram(t)
	namespace(t, migratedNamespace)
	kubectl(t, "-n", migratedNamespace, "create", "secret", "generic", "coder-db-url", "--from-literal=url="+database(t, "migrated"))
	values := filepath.Join(t.TempDir(), "values.yaml")
	_, tag, _ := strings.Cut(coderImage, ":")
	if err := os.WriteFile(values, []byte(strings.Replace(migratedValues, "TAG", tag, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, helm, "-n", migratedNamespace, "install", "coder", chart, "-f", values, "--wait", "--timeout=10m")
	before := runningAs(t)

	told := run(t, "../../bin/coder-k8s", "migrate", "helm", "--release=coder", "-n", migratedNamespace, "--take-over", "--dry-run")
	if !strings.Contains(told, "the pods stay") || runningAs(t) != before {
		t.Fatalf("a dry run changes something, or says that pods are replaced:\n%s", told)
	}
	takeOver := func() {
		t.Helper()
		told := run(t, "../../bin/coder-k8s", "migrate", "helm", "--release=coder", "-n", migratedNamespace, "--take-over", "--timeout=10m")
		if !strings.Contains(told, "1 of 1 pods are still the same") {
			t.Errorf("the command says\n%s", told)
		}
		waitCondition(t, "Ready", "True", "Ready", "-n", migratedNamespace, "ccp", "coder")
		if after := runningAs(t); after != before {
			t.Errorf("taken over, it runs as %s, before as %s", after, before)
		}
	}
	takeOver()
	t.Run("contract", testContract)

	// Return it to Helm, and take it over again.
	kubectl(t, "-n", migratedNamespace, "delete", "ccp", "coder", "--cascade=orphan", "--timeout=5m")
	// The garbage collector would delete objects that still have the control plane as
	// their owner.
	for _, object := range []string{"deployment", "service", "serviceaccount"} {
		if owners := kubectl(t, "-n", migratedNamespace, "get", object, "coder", "-o", "jsonpath={.metadata.ownerReferences}"); owners != "" {
			t.Errorf("the %s that was left behind belongs to %s", object, owners)
		}
	}
	kubectl(t, "-n", migratedNamespace, "delete", "secret,role,rolebinding", "-l", "app.kubernetes.io/managed-by=coder-k8s,app.kubernetes.io/instance=coder")
	run(t, helm, "-n", migratedNamespace, "upgrade", "coder", chart, "-f", values, "--wait", "--timeout=10m", "--force-conflicts")
	if after := runningAs(t); after != before {
		t.Errorf("back with Helm, it runs as %s, before as %s", after, before)
	}
	takeOver()

	// Delete Helm's release data only; then everything is deleted with the control
	// plane.
	kubectl(t, "-n", migratedNamespace, "delete", "secret", "-l", "owner=helm,name=coder")
	if after := runningAs(t); after != before {
		t.Errorf("forgotten by Helm, it runs as %s, before as %s", after, before)
	}
	kubectl(t, "-n", migratedNamespace, "delete", "ccp", "coder", "--timeout=5m")
	polltest.Eventually(t, "the Deployment goes with the control plane", func() error {
		if out, err := tryKubectl(t, "-n", migratedNamespace, "get", "deployment", "coder"); err == nil {
			return fmt.Errorf("it is still there: %s", out)
		}
		return nil
	})
	kubectl(t, "delete", "namespace", migratedNamespace, "--timeout=5m")
}

// testContract checks that this Coder does what the fake server of other tests does.
func testContract(t *testing.T) {
	url := coderURL(t, migratedNamespace, "coder")
	operator, err := coderd.New(coderd.Config{URL: url, Token: secretValue(t, migratedNamespace, "coder-operator-token", "token")})
	if err != nil {
		t.Fatal(err)
	}
	organization, err := operator.OrganizationByName(t.Context(), coderd.DefaultOrganization)
	if err != nil {
		t.Fatal(err)
	}
	// TestContract logs in as this user.
	_, err = operator.CreateUser(t.Context(), coderd.NewUser{
		Username: "contract", Email: "contract@example.com", Password: "Contract-Passw0rd-of-Tests!", OrganizationIDs: []uuid.UUID{organization.ID},
	})
	if err == nil {
		err = operator.SetRoles(t.Context(), "contract", []string{"owner"})
	}
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, "env", "CODER_CONTRACT_URL="+url, "../../bin/coderd.test", "-test.run", "^TestContract$/^real$", "-test.v")
	if !strings.Contains(out, "--- PASS: TestContract/real/logout") {
		t.Errorf("the contract was not tested:\n%s", out)
	}
}

const migratedValues = `coder:
  image: {tag: TAG}
  env:
  - name: CODER_PG_CONNECTION_URL
    valueFrom: {secretKeyRef: {name: coder-db-url, key: url}}
  - name: CODER_TELEMETRY_ENABLE
    value: "false"
  resources:
    requests: {cpu: 100m, memory: 256Mi}
  service: {type: ClusterIP}
`

// runningAs returns what must not change: the uids of the pods, the Deployment and the
// Service, and the Service's address.
func runningAs(t *testing.T) string {
	t.Helper()
	return kubectl(t, "-n", migratedNamespace, "get", "pods", "-l", "app.kubernetes.io/name=coder,app.kubernetes.io/instance=coder",
		"-o", "jsonpath={range .items[*]}pod {.metadata.uid} restarted {.status.containerStatuses[0].restartCount} {end}") +
		kubectl(t, "-n", migratedNamespace, "get", "deployment", "coder", "-o", "jsonpath=deployment {.metadata.uid} ") +
		kubectl(t, "-n", migratedNamespace, "get", "service", "coder", "-o", "jsonpath=service {.metadata.uid} {.spec.clusterIP}")
}

// run runs a program and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	// Longer than the programs' own timeouts. This includes building Helm.
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// helmProgram returns the path of Helm in the version of hack/tools.sh.
func helmProgram(t *testing.T) string {
	t.Helper()
	run(t, "../../hack/tools.sh", "helm")
	if dir := os.Getenv("TOOLS_DIR"); dir != "" {
		return filepath.Join(dir, "helm")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, ".cache", "coder-k8s", "tools", "helm")
}

// coderChart returns Coder's own chart with the library chart that it needs, from the
// module of Coder's client.
func coderChart(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coder/coder/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	from, to := filepath.Join(strings.TrimSpace(string(out)), "helm"), filepath.Join(t.TempDir(), "coder")
	err = errors.Join(copyFiles(filepath.Join(from, "coder"), to), copyFiles(filepath.Join(from, "libcoder"), filepath.Join(to, "charts", "libcoder")))
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// copyFiles copies a directory of the module cache, whose files are read-only, to
// writable files.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), raw, 0o600)
	})
}
