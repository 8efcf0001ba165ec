//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// pluginTemplate is created, changed and deleted by this test, so that the samples
// stay unchanged.
const pluginTemplate = "coder.plugin"

// testPlugin operates the samples with kubectl coder, and leaves them unchanged.
func testPlugin(t *testing.T) {
	explain(t, sampleNamespace)
	withPlugin(t)
	t.Run("status", testPluginStatus)
	t.Run("workspace", testPluginWorkspace)
	t.Run("template", testPluginTemplate)
	t.Run("open", testPluginOpen)
	t.Run("rights", testPluginRights)
	t.Run("completion", testPluginCompletion)
}

// coder runs kubectl coder and returns both outputs and the exit code.
func coder(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	stdout, stderr, err := kubectlBoth(t, append([]string{"coder"}, args...)...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("kubectl coder %s: %v", strings.Join(args, " "), err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return stdout, stderr, code
}

// coderGives runs kubectl coder, and checks its exit code and its outputs.
func coderGives(t *testing.T, code int, out, errs string, args ...string) string {
	t.Helper()
	stdout, stderr, got := coder(t, args...)
	if got != code || !strings.Contains(stdout, out) || !strings.Contains(stderr, errs) {
		t.Errorf("kubectl coder %s: exit code %d, want %d, with %q and %q; it wrote\n%s%s", strings.Join(args, " "), got, code, out, errs, stdout, stderr)
	}
	return stdout
}

func testPluginStatus(t *testing.T) {
	// The test before this one replaced the operator's pod.
	polltest.Eventually(t, "status says that all is well", func() error {
		out, noise, code := coder(t, "status", "-n", sampleNamespace, "-o", "json")
		var report struct {
			ControlPlanes []struct{ Name, State, Version string }
			Workspaces    struct{ ByState map[string]int }
			Problems      []struct{ Object, What string }
			NotSeen       []string
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			return fmt.Errorf("%w\n%s%s", err, out, noise)
		}
		if code != 0 || len(report.Problems)+len(report.NotSeen) > 0 || len(report.ControlPlanes) != 1 || report.ControlPlanes[0].State != "Ready" ||
			report.Workspaces.ByState["Running"] == 0 {
			return fmt.Errorf("exit code %d: %+v", code, report)
		}
		return nil
	})
	coderGives(t, 0, "Deployment coder-k8s", "", "version")

	// A workspace with a problem is reported, with a command.
	apply(t, strings.ReplaceAll(brokenPluginTemplate, "NAMESPACE", sampleNamespace))
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "ctpl", "coder.plugin-broken", "--ignore-not-found") })
	polltest.Eventually(t, "status tells of a template that cannot be built", func() error {
		out, _, code := coder(t, "status", "-n", sampleNamespace)
		if code != 4 || !containsAll(out, "CoderTemplate coder/coder.plugin-broken", "kubectl coder logs -n coder template/coder.plugin-broken") {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	coderGives(t, 0, "Unclosed configuration block", "", "logs", "-n", sampleNamespace, "template/plugin-broken")
	kubectl(t, "-n", sampleNamespace, "delete", "ctpl", "coder.plugin-broken")
}

const brokenPluginTemplate = `apiVersion: aggregation.coder.com/v1alpha1
kind: CoderTemplate
metadata: {name: coder.plugin-broken, namespace: NAMESPACE}
spec: {organization: coder, files: {main.tf: "resource \"nothing\" {"}}
`

func testPluginWorkspace(t *testing.T) {
	// There is no terminal for the confirmation, so nothing is stopped.
	coderGives(t, 2, "", "add --yes", "stop", "-n", sampleNamespace, "admin.hello")
	coderGives(t, 0, "coder.admin.hello stopped", "the stop build is in progress", "stop", "-n", sampleNamespace, "coder.admin.hello", "--wait", "--yes")
	if phase := field(get(t, "-n", sampleNamespace, "cws", "coder.admin.hello"), "status", "phase"); phase != "Stopped" {
		t.Errorf("after stop --wait the workspace is %s", phase)
	}
	coderGives(t, 0, "coder.admin.hello started", "", "start", "-n", sampleNamespace, "--all", "--owner", "admin", "--template", "hello", "--wait")
	coderGives(t, 0, "coder.admin.hello restarted", "", "restart", "-n", sampleNamespace, "coder.admin.hello", "--wait", "--yes")
	if phase := field(get(t, "-n", sampleNamespace, "cws", "coder.admin.hello"), "status", "phase"); phase != "Running" {
		t.Errorf("after restart --wait the workspace is %s", phase)
	}
	whole := coderGives(t, 0, "Apply complete!", "", "logs", "-n", sampleNamespace, "coder.admin.hello", "-f")
	tail := coderGives(t, 0, "", "", "logs", "-n", sampleNamespace, "coder.admin.hello", "--tail", "2")
	if strings.Count(tail, "\n") != 2 || !strings.HasSuffix(whole, tail) {
		t.Errorf("the last two lines are %q", tail)
	}
	coderGives(t, 2, "", "the workspace has builds 1 to", "logs", "-n", sampleNamespace, "coder.admin.hello", "--build", "9999")
}

func testPluginTemplate(t *testing.T) {
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "ctpl", pluginTemplate, "--ignore-not-found") })
	in := func(args ...string) []string {
		return append([]string{"template"}, append(args, "-n", sampleNamespace)...)
	}
	pulled := filepath.Join(t.TempDir(), "hello")
	coderGives(t, 0, "", "2 files of template coder.hello", in("pull", "hello", pulled)...)
	coderGives(t, 0, "", "", in("diff", "hello", pulled)...)
	coderGives(t, 0, "coder.hello unchanged", "", in("push", "hello", pulled, "--wait")...)
	coderGives(t, 1, "", "add --create to create it", in("push", pluginTemplate, pulled)...)
	coderGives(t, 0, "coder.plugin created", "", in("push", pluginTemplate, pulled, "--create", "--wait")...)

	main := filepath.Join(pulled, "main.tf")
	text, err := os.ReadFile(main)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(main, append(text, "# changed by kubectl coder\n"...), 0o644); err != nil { //nolint:gosec // As an editor writes it.
		t.Fatal(err)
	}
	coderGives(t, 1, "+# changed by kubectl coder", "", in("diff", "plugin", pulled)...)
	coderGives(t, 0, "coder.plugin pushed (server dry run)", "", in("push", "plugin", pulled, "--dry-run")...)
	coderGives(t, 0, "coder.plugin pushed", "", in("push", "plugin", pulled, "--message", "from a test", "--wait")...)
	coderGives(t, 0, "", "", in("diff", "plugin", pulled)...)

	// A binary file is uploaded in another way.
	if err := os.WriteFile(filepath.Join(pulled, "logo.png"), []byte{0, 255, 1}, 0o644); err != nil { //nolint:gosec // Likewise.
		t.Fatal(err)
	}
	coderGives(t, 0, "coder.plugin pushed", "", in("push", "plugin", pulled, "--wait")...)
	coderGives(t, 0, "", "", in("diff", "plugin", pulled)...)
	coderGives(t, 0, "coder.plugin unchanged", "", in("push", "plugin", pulled)...)
	kubectl(t, "-n", sampleNamespace, "delete", "ctpl", pluginTemplate)
}

// testPluginOpen reaches Coder through the port-forward, and ends with an interrupt.
func testPluginOpen(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl-coder", "open", "-n", sampleNamespace, "coder.admin.hello", "--no-browser")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("kubectl coder open gives no address: %v %v", err, cmd.Wait())
	}
	address = strings.TrimSpace(address)
	base, found := strings.CutSuffix(address, "/@admin/hello")
	if !found {
		t.Errorf("the address is %q", address)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v2/buildinfo", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("Coder answers %s", answer.Status)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("interrupted, kubectl coder open ends with %v, want exit code 130", err)
	}
	stdout := coderGives(t, 0, "Password", "", "login", "-n", sampleNamespace, "--show-password")
	if !containsAll(stdout, "Username    admin", "Email", "Open with   kubectl coder open") {
		t.Error("login --show-password lacks the username or the email")
	}
}

// testPluginRights runs the plugin with read permissions in one namespace.
func testPluginRights(t *testing.T) {
	kubectl(t, "-n", sampleNamespace, "create", "rolebinding", "plugin-viewer", "--clusterrole=view", "--user=plugin-viewer")
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "rolebinding", "plugin-viewer") })
	as := func(args ...string) []string { return append(args, "-n", sampleNamespace, "--as", "plugin-viewer") }
	// The API server's authorizer sees the roles with a delay.
	polltest.Eventually(t, "a viewer sees the status", func() error {
		out, noise, code := coder(t, as("status", "--installation=false")...)
		if code != 0 {
			return fmt.Errorf("exit code %d: %s%s", code, out, noise)
		}
		return nil
	})
	coderGives(t, 3, "Not checked: the installation: you have no permission to read", "", as("status")...)
	coderGives(t, 1, "", "cannot create resource", as("restart", "coder.admin.hello", "--yes")...)
	coderGives(t, 1, "", "cannot get resource", as("login", "--show-password")...)
}

func testPluginCompletion(t *testing.T) {
	// Completion has a limit of five seconds, so it may return nothing at first.
	polltest.Eventually(t, "kubectl completes the name of a workspace", func() error {
		out, err := tryKubectl(t, "__complete", "coder", "stop", "-n", sampleNamespace, "coder.admin.h")
		if err != nil || !strings.HasPrefix(out, "coder.admin.hello\n") {
			return fmt.Errorf("it gives %q (%w)", out, err)
		}
		return nil
	})
}
