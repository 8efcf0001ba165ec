package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusals checks that invalid values are rejected, with the error message.
func TestRefusals(t *testing.T) {
	tests := map[string]struct{ values, says string }{
		"a value that is not there": {
			"replica: 2", "additional properties 'replica' not allowed"},
		"a value that a group has not": {
			"image: {name: x}", "at '/image': additional properties 'name' not allowed"},
		"a mode that is none": {
			"mode: both", "at '/mode': value must be one of 'all', 'split'"},
		"a number that is a text": {
			`replicas: "2"`, "at '/replicas': got string, want integer"},
		"a number below zero": {
			"replicas: -1", "at '/replicas': minimum: got -1, want 0"},
		"a text that is a number": {
			"log: {level: 4}", "at '/log/level': got number, want string"},
		"a namespace that is none": {
			"watchNamespaces: [Team A]", "at '/watchNamespaces/0': 'Team A' does not match pattern"},
		"a namespace twice": {
			"watchNamespaces: [a, a]", "at '/watchNamespaces': items at 0 and 1 are equal"},
		"a digest that is none": {
			"image: {digest: abc}", "at '/image/digest': 'abc' does not match pattern"},
		"a toolset that is none": {
			"mcp: {toolsets: [shell]}", "at '/mcp/toolsets/0': value must be one of 'controlplane', 'workspace', 'template', 'observe'"},
		"an argument without dashes": {
			"extraArgs: [debug]", "at '/extraArgs/0': 'debug' does not match pattern '^--'"},
		"a collector with a scheme": {
			"tracing: {endpoint: 'http://collector:4317'}", "at '/tracing/endpoint': 'http://collector:4317' does not match pattern"},
		"a component that is none": {
			"{mode: split, components: {worker: {}}}", "at '/components': additional properties 'worker' not allowed"},
		"a value that a component has not": {
			"{mode: split, components: {mcp: {mode: all}}}", "at '/components/mcp': additional properties 'mode' not allowed"},
		"a component in mode all": {
			"components: {mcp: {replicas: 2}}",
			`components.mcp is set, but with mode "all" there is one Deployment for everything: set replicas, resources and the like beside mode, or set mode to "split"`},
		"a component that is off": {
			"{mode: split, mcp: {enabled: false}, components: {mcp: {replicas: 2}}}",
			"components.mcp is set, but mcp.enabled is false: remove one of the two"},
		"the operator's own namespace": {
			"watchNamespaces: [coder-system]",
			`watchNamespaces names "coder-system", where the operator itself is: keep control planes in other namespaces`},
		"an issuer that nobody asks": {
			"certificates: {certManager: {issuerRef: {name: a, kind: Issuer}}}",
			`certificates.certManager.issuerRef is set, but the operator makes its certificate itself: set certificates.mode to "certManager", or remove the issuer`},
		"an issuer without a kind": {
			"certificates: {mode: certManager, certManager: {issuerRef: {name: a}}}",
			"certificates.certManager.issuerRef needs a name and a kind, for example {name: company, kind: ClusterIssuer}"},
		"people who log in nowhere": {
			"mcp: {oidc: {issuerURL: https://login.example.com}}",
			"mcp.oidc.issuerURL is set without mcp.publicURL: set the URL of the endpoint as clients write it, for example https://mcp.example.com/mcp"},
		"no grace at all": {
			"terminationGracePeriodSeconds: 0", "at '/terminationGracePeriodSeconds': minimum: got 0, want 5"},
		"a history without end": {
			"revisionHistoryLimit: 1001", "at '/revisionHistoryLimit': maximum: got 1,001, want 1,000"},
		"more replicas than nodes": {
			"replicas: 1000", "at '/replicas': maximum: got 1,000, want 100"},
		"a probe without a period": {
			"readinessProbe: {periodSeconds: 0}", "at '/readinessProbe/periodSeconds': minimum: got 0, want 1"},
		"a liveness probe with a success threshold": {
			"livenessProbe: {successThreshold: 2}", "at '/livenessProbe': additional properties 'successThreshold' not allowed"},
		"a port that only root may have": {
			"apiserver: {port: 443}", "at '/apiserver/port': minimum: got 443, want 1,024"},
		"a port that is none": {
			"apiserver: {port: 65536}", "at '/apiserver/port': maximum: got 65,536, want 65,535"},
		"a port that the pod has already": {
			"apiserver: {port: 8443}", "apiserver.port 8443 is a port that the pod serves something else on: choose another, for example 10250"},
		"the kubelet's port": {
			"apiserver: {port: 10250, hostNetwork: true}",
			"apiserver.port is 10250 with apiserver.hostNetwork, but on a node that is the port of the kubelet: choose another, for example 6443, or leave apiserver.hostNetwork out"},
		"a name that is no ServiceAccount's": {
			"serviceAccount: {name: Operator}", "at '/serviceAccount/name': 'Operator' does not match pattern"},
		"a family that is none": {
			"service: {ipFamilies: [IPv5]}", "at '/service/ipFamilies/0': value must be one of 'IPv4', 'IPv6'"},
		"two families in a single stack": {
			"service: {ipFamilyPolicy: SingleStack, ipFamilies: [IPv4, IPv6]}",
			"service.ipFamilies names two families, but service.ipFamilyPolicy is SingleStack: name one, or set PreferDualStack or RequireDualStack"},
		"no DNS server": {
			"dnsPolicy: None", "dnsPolicy is None without dnsConfig.nameservers, so the pods could resolve no name: name at least one nameserver"},
		"a container without an image": {
			"extraContainers: [{name: a}]", "at '/extraContainers/0': missing property 'image'"},
		"a rate below zero": {
			"mcp: {limits: {rate: -1}}", "at '/mcp/limits/rate': minimum: got -1, want 0"},
		"a burst of nothing": {
			"mcp: {limits: {burst: 0}}", "at '/mcp/limits/burst': minimum: got 0, want 1"},
		"a host that is a URL": {
			"mcp: {ingress: {host: 'https://mcp.example.com'}}", "at '/mcp/ingress/host': 'https://mcp.example.com' does not match pattern"},
		"an Ingress to a server that is off": {
			"mcp: {enabled: false, ingress: {host: mcp.example.com}}",
			"mcp.ingress.host is set, but mcp.enabled is false: remove one of the two"},
		"definitions of somebody else that do not stay": {
			"crds: {install: false, keep: false}",
			"crds.keep is false with crds.install false: the definitions are not this release's to remove; leave crds.keep out"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			values := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(values, []byte(tc.values), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := helm(t, namespace, values)
			if err == nil {
				t.Fatal("they are taken")
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("helm does not say %q:\n%v", tc.says, err)
			}
		})
	}
}
