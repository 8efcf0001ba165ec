package resources

import (
	"net/url"
	"strings"
	"testing"
)

// TestRelayURL checks that the relay URL of a replica is valid with an address of either family.
// Otherwise Coder 2.34 does not start.
func TestRelayURL(t *testing.T) {
	for address, ipv6 := range map[string]bool{"10.0.0.7": false, "2001:db8::7": true} {
		for name, w := range map[string]Workload{"control plane": full(), "proxy": proxy()} {
			w.Serving.PodIPv6 = ipv6
			w.Spec.ExtraEnv = nil
			found := false
			for _, env := range environment(w) {
				if env.Name != "CODER_DERP_SERVER_RELAY_URL" {
					continue
				}
				found = true
				relay, err := url.Parse(strings.ReplaceAll(env.Value, "$(KUBE_POD_IP)", address))
				if err != nil || relay.Hostname() != address || relay.Port() == "" {
					t.Errorf("%s at %s: %q becomes %v: %v", name, address, env.Value, relay, err)
				}
			}
			if !found {
				t.Errorf("%s has no relay URL", name)
			}
		}
	}
}
