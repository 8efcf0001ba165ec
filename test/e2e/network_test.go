//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// thisMachine allows connections from this machine, on which the tests run: they stand for people, who come through an
// Ingress controller.
const thisMachine = `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "this-machine", "namespace": %q},
	"spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [%s]}]}}`

// probe is a pod that does nothing.
const probe = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": %q}, "spec": {"terminationGracePeriodSeconds": 0,
	"containers": [{"name": "main", "image": "coder-k8s.local/busybox:1", "command": ["sleep", "3600"]}]}}`

// openToThisMachine lets this machine into a closed namespace.
func openToThisMachine(t *testing.T, namespace string) {
	t.Helper()
	var blocks []string
	for text := range strings.SplitSeq(os.Getenv("E2E_HOST_IPS"), ",") {
		address, err := netip.ParseAddr(text)
		if err != nil {
			t.Fatalf("E2E_HOST_IPS: %v", err)
		}
		blocks = append(blocks, fmt.Sprintf(`{"ipBlock": {"cidr": "%s/%d"}}`, address, address.BitLen()))
	}
	apply(t, fmt.Sprintf(thisMachine, namespace, strings.Join(blocks, ", ")))
}

// closeSamples denies all traffic of the namespace of the samples that config/samples does not allow.
func closeSamples(t *testing.T) {
	t.Helper()
	apply(t, strings.ReplaceAll(sample(t, "networkpolicies"), "port: 5432", "port: "+postgresPort()))
	openToThisMachine(t, sampleNamespace)
}

// testClosedNetwork tries, from a pod that no policy names, what the policies of the chart and of config/samples must not
// allow, and then the same from a namespace that they name: what was refused before is there.
func testClosedNetwork(t *testing.T) {
	explain(t, "elsewhere", sampleNamespace)
	namespace(t, "elsewhere")
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "pod", "probe", "--ignore-not-found") })
	for _, ns := range []string{"elsewhere", sampleNamespace} {
		apply(t, fmt.Sprintf(probe, ns))
	}
	for _, ns := range []string{"elsewhere", sampleNamespace} {
		kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/probe", "--timeout=2m")
	}
	operator := inURL(field(list(t, "-n", "coder-system", "pods", "-l", operatorLabel)[0], "status", "podIP"))
	coder := inURL(field(list(t, "-n", sampleNamespace, "pods", "-l", "app.kubernetes.io/name=coder-control-plane")[0], "status", "podIP"))
	database, err := url.Parse(os.Getenv("E2E_POSTGRES_URL"))
	if err != nil {
		t.Fatal(err)
	}
	// connects returns "open", "closed", or why neither is known.
	connects := func(from, address string) string {
		host, port, _ := net.SplitHostPort(address)
		_, stderr, err := kubectlBoth(t, "-n", from, "exec", "probe", "--", "nc", "-w", "3", host, port)
		switch {
		case err == nil:
			return "open"
		case strings.Contains(stderr, "can't connect"), strings.Contains(stderr, "timed out"):
			return "closed"
		}
		return stderr
	}
	for _, c := range []struct{ from, what, address string }{
		{"elsewhere", "the metrics", operator + ":8443"},
		{"elsewhere", "the probes", operator + ":8081"},
		{"elsewhere", "the MCP server", operator + ":8090"},
		{"elsewhere", "Coder", coder + ":8080"},
		{sampleNamespace, "Coder", coder + ":8080"},
		{sampleNamespace, "the database", database.Host},
		{sampleNamespace, "the aggregated API", operator + ":6443"},
	} {
		polltest.Eventually(t, c.what+" is closed to "+c.from, func() error {
			if state := connects(c.from, c.address); state != "closed" {
				return fmt.Errorf("%s is %s to a pod of %s at %s", c.what, state, c.from, c.address)
			}
			return nil
		})
	}
	kubectl(t, "label", "namespace", "elsewhere", "coder.com/mcp-client=true", "coder.com/metrics-reader=true")
	apply(t, `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "elsewhere", "namespace": "`+sampleNamespace+`"},
		"spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"coder.com/mcp-client": "true"}}}]}]}}`)
	t.Cleanup(func() { cleanup("-n", sampleNamespace, "delete", "networkpolicy", "elsewhere") })
	for _, address := range []string{operator + ":8443", operator + ":8090", operator + ":6443", coder + ":8080", database.Host} {
		polltest.Eventually(t, address+" is open to elsewhere", func() error {
			if state := connects("elsewhere", address); state != "open" {
				return fmt.Errorf("%s is %s to a pod that the policies name", address, state)
			}
			return nil
		})
	}
}
