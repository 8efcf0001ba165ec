//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestIPv6Only runs the main steps on a cluster whose nodes, pods and Services have only IPv6
// addresses (CLUSTER_FAMILY=ipv6).
func TestIPv6Only(t *testing.T) {
	if !testFamily(t) {
		return
	}
	t.Run("addresses", func(t *testing.T) {
		for _, address := range append(podAddresses(t), serviceAddresses(t)...) {
			if parsed, err := netip.ParseAddr(address); err != nil || !parsed.Is6() {
				t.Errorf("%q is not an IPv6 address: %v", address, err)
			}
		}
	})
}

// TestDualStack runs the main steps on a cluster with both families, IPv4 first
// (CLUSTER_FAMILY=dual), and then uses Services of both.
func TestDualStack(t *testing.T) {
	if !testFamily(t) {
		return
	}
	t.Run("both families", func(t *testing.T) {
		explain(t, sampleNamespace)
		patchSample(t, `{"service":{"ipFamilyPolicy":"RequireDualStack"}}`)
		kubectl(t, "-n", "coder-system", "patch", "service", "coder-k8s", "coder-k8s-apiserver", "-p", `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`)
		services := serviceAddresses(t)
		slices.Sort(services)
		if len(slices.Compact(slices.Clone(services))) != 6 {
			t.Fatalf("the three Services have the addresses %q, not two each", services)
		}
		for _, address := range clusterIPs(t, sampleNamespace, "coder") {
			fetched(t, "http://"+inURL(address)+"/healthz", "", "OK")
		}
		for _, address := range clusterIPs(t, "coder-system", "coder-k8s-apiserver") {
			// Callers without a credential are refused.
			polltest.Eventually(t, address+" answers", func() error {
				if status, body, err := fetch(t, "https://"+inURL(address)+"/livez", ""); err != nil || status != http.StatusUnauthorized {
					return fmt.Errorf("%d %.300q %w", status, body, err)
				}
				return nil
			})
		}
		for _, address := range podAddresses(t) {
			fetched(t, "http://"+net.JoinHostPort(address, "8081")+"/healthz", "", "")
		}
		serving(t)
		listed(t, "coder.admin.hello")
	})
}

// testFamily runs the main steps, and reports whether the samples are there.
func testFamily(t *testing.T) bool {
	reportPanics(t)
	if !t.Run("install", testInstall) || !t.Run("samples", testSamples) {
		return false
	}
	t.Run("closed network", testClosedNetwork)
	t.Run("metrics", func(t *testing.T) { metricsOf(t) })
	t.Run("MCP", func(t *testing.T) {
		t.Run("who gets in", testMCPEntry)
		t.Run("who may only view", testMCPViewer)
	})
	t.Run("workspace with an agent", func(t *testing.T) {
		explain(t, sampleNamespace)
		withPlugin(t)
		object := liveWorkspace(t, "live")
		if out := inWorkspace(t, object, "echo hello"); out != "hello\n" {
			t.Errorf("the command wrote %q", out)
		}
		testLiveAccess(t, object)
		t.Run("MCP", func(t *testing.T) { testLiveMCP(t, object) })
	})
	return true
}

// podAddresses returns all addresses of the operator's pods.
func podAddresses(t *testing.T) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "-n", "coder-system", "get", "pods", "-l", operatorLabel, "-o", "jsonpath={.items[*].status.podIPs[*].ip}"))
}

// serviceAddresses returns the addresses of the Services of the operator and of the sample
// control plane.
func serviceAddresses(t *testing.T) []string {
	t.Helper()
	return slices.Concat(clusterIPs(t, "coder-system", "coder-k8s"), clusterIPs(t, "coder-system", "coder-k8s-apiserver"), clusterIPs(t, sampleNamespace, "coder"))
}

func clusterIPs(t *testing.T, namespace, service string) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "-n", namespace, "get", "service", service, "-o", "jsonpath={.spec.clusterIPs[*]}"))
}
