package mcpserver

import (
	"math"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

func TestOptionsSayWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		change func(*Options)
		says   string
	}{
		"an address without a port":     {func(o *Options) { o.BindAddress = "localhost" }, "--mcp-bind-address"},
		"an address with an empty port": {func(o *Options) { o.BindAddress = "localhost:" }, "--mcp-bind-address"},
		"a certificate without its key": {func(o *Options) { o.TLSCertFile = "x" }, "--mcp-tls-key-file"},
		"a host that is an address":     {func(o *Options) { o.AllowedHosts = []string{"https://a"} }, "--mcp-allowed-hosts"},
		"a wildcard host":               {func(o *Options) { o.AllowedHosts = []string{"*"} }, "--mcp-allowed-hosts"},
		"an origin without a scheme":    {func(o *Options) { o.AllowedOrigins = []string{"a.example.com"} }, "--mcp-allowed-origins"},
		"nobody asked on all addresses": {func(o *Options) { o.Identity.Mode = callers.ModeNone }, "--mcp-auth=none"},
		"an unknown toolset":            {func(o *Options) { o.Tools.Toolsets = []string{"x"} }, `there is no toolset "x"; there are: controlplane`},
		"an unknown tool":               {func(o *Options) { o.Tools.Disabled = []string{"x"} }, `there is no tool "x"`},
		"a tool that read-only forbids": {func(o *Options) { o.Tools.ReadOnly, o.Tools.Enabled = true, []string{"delete_workspace"} }, "--mcp-read-only"},
		"nothing to leave unconfirmed":  {func(o *Options) { o.InsideUnconfirmed = true }, "add it to --mcp-toolsets"},
		"a negative rate":               {func(o *Options) { o.RateLimit = -1 }, "--mcp-rate-limit=-1"},
		"a rate that is no number":      {func(o *Options) { o.RateLimit = math.NaN() }, "--mcp-rate-limit"},
		"a burst of none":               {func(o *Options) { o.RateBurst = 0 }, "--mcp-rate-burst=0"},
		"fewer requests than none":      {func(o *Options) { o.MaxInFlight = -1 }, "--mcp-max-in-flight=-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			if errs := o.Validate(); len(errs) != 0 {
				t.Fatalf("the defaults are refused: %v", errs)
			}
			tc.change(o)
			errs := o.Validate()
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.says) {
				t.Errorf("Validate says %v, want one error with %q", errs, tc.says)
			}
			o.BindAddress = "0"
			if errs := o.Validate(); len(errs) != 0 {
				t.Errorf("of a server that is off Validate says %v", errs)
			}
		})
	}
}

func TestNoLimits(t *testing.T) {
	o := NewOptions()
	o.RateLimit, o.RateBurst, o.MaxInFlight = 0, 0, 0
	if errs := o.Validate(); len(errs) != 0 {
		t.Errorf("Validate says %v", errs)
	}
}
