package registration

import (
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// TestAddressesOfTheOperatorAlone checks that the author of a proxy cannot have requests sent to the operator's own loopback
// address. The URL of a control plane is that of a Service, or of the tests, and is not restricted.
func TestAddressesOfTheOperatorAlone(t *testing.T) {
	for name, c := range map[string]struct {
		spec  func(*fixture)
		state ensure.State
	}{
		"the URL of a Coder elsewhere": {(*fixture).viaBootstrap, ensure.Failed},
		"the URL of a given token":     {(*fixture).giveToken, Unverified},
		"a control plane":              {func(*fixture) {}, ensure.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.manager.NewClient = coderd.New
			c.spec(f)
			result := f.pass()
			refused := strings.Contains(result.Message, "the operator does not connect to 127.0.0.1, because it is a loopback address")
			if result.State != c.state || refused == (c.state == ensure.Ready) {
				t.Errorf("%v: %s", result.State, result.Message)
			}
		})
	}
}
