package mcpserver

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// DefaultBindAddress is the default address on which the server listens.
	DefaultBindAddress = ":8090"
	// off is the address that disables the server.
	off = "0"
)

// Options are the user's settings of the server. AddFlags describes the fields.
type Options struct {
	BindAddress                           string
	TLSCertFile, TLSKeyFile               string
	AllowedHosts, AllowedOrigins          []string
	Identity                              *callers.AuthenticationOptions
	Tools                                 toolset.Options
	RequireElicitation, InsideUnconfirmed bool
	UserExtra                             []string
	RateLimit                             float64
	RateBurst, MaxInFlight                int
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		BindAddress: DefaultBindAddress,
		Identity:    callers.NewAuthenticationOptions(),
		RateLimit:   10,
		RateBurst:   20,
		MaxInFlight: 256,
	}
}

// Off reports whether the server is disabled.
func (o *Options) Off() bool { return o.BindAddress == off }

// AddFlags registers the options as flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "mcp-bind-address", o.BindAddress,
		"host:port on which the MCP server listens; 0 disables it")
	fs.StringVar(&o.TLSCertFile, "mcp-tls-cert-file", o.TLSCertFile,
		"PEM certificate with which the MCP server serves TLS; read again when it changes (default: plain HTTP)")
	fs.StringVar(&o.TLSKeyFile, "mcp-tls-key-file", o.TLSKeyFile,
		"PEM key of --mcp-tls-cert-file")
	fs.StringSliceVar(&o.AllowedHosts, "mcp-allowed-hosts", o.AllowedHosts,
		"additional host names that clients use for the MCP server, for example the host of an Ingress; "+
			"localhost, the names of Service coder-k8s, the host of --mcp-public-url and IP addresses are always allowed")
	fs.StringSliceVar(&o.AllowedOrigins, "mcp-allowed-origins", o.AllowedOrigins,
		"web origins (scheme://host[:port]) whose pages may call the MCP server, besides its own")
	o.Identity.AddFlags(fs)
	fs.BoolVar(&o.Tools.ReadOnly, "mcp-read-only", o.Tools.ReadOnly,
		"offer only tools that are read-only")
	fs.StringSliceVar(&o.Tools.Toolsets, "mcp-toolsets", o.Tools.Toolsets,
		"toolsets to offer: "+strings.Join(toolset.Toolsets(), ", ")+" (default: all but "+toolset.Inside+", which runs commands and writes files in workspaces)")
	fs.StringSliceVar(&o.Tools.Enabled, "mcp-enabled-tools", o.Tools.Enabled,
		"tools to offer, and no others (default: all)")
	fs.StringSliceVar(&o.Tools.Disabled, "mcp-disabled-tools", o.Tools.Disabled,
		"tools not to offer")
	fs.BoolVar(&o.RequireElicitation, "mcp-require-elicitation", o.RequireElicitation,
		"refuse to delete, stop or replace anything for a client that cannot ask its user in a form; without it such a client repeats the name of the object in the argument confirm")
	fs.BoolVar(&o.InsideUnconfirmed, "mcp-inside-unconfirmed", o.InsideUnconfirmed,
		"run commands and write files in workspaces without asking the user; for toolset "+toolset.Inside)
	fs.StringSliceVar(&o.UserExtra, "mcp-user-extra", o.UserExtra,
		"keys of extra attributes of callers, for example example.com/email, that are passed on to Kubernetes, so that rules of spec.identity can match them; "+
			"the server needs the verb impersonate:user-info on userextras/<key> for each (default: none)")
	fs.Float64Var(&o.RateLimit, "mcp-rate-limit", o.RateLimit,
		"requests that each user may make a second, on each replica; 0 for no limit")
	fs.IntVar(&o.RateBurst, "mcp-rate-burst", o.RateBurst,
		"requests that a user who made none for a while may make at once")
	fs.IntVar(&o.MaxInFlight, "mcp-max-in-flight", o.MaxInFlight,
		"requests that the MCP server works on at a time, a quarter of them for one user; 0 for no limit")
}

// Validate returns all errors in the options. If the server is disabled, there are none.
func (o *Options) Validate() []error {
	if o.Off() {
		return nil
	}
	var errs []error
	if _, port, err := net.SplitHostPort(o.BindAddress); err != nil || port == "" {
		errs = append(errs, fmt.Errorf("--mcp-bind-address %q is not host:port, for example %s; 0 disables the server", o.BindAddress, DefaultBindAddress))
	}
	if (o.TLSCertFile == "") != (o.TLSKeyFile == "") {
		errs = append(errs, errors.New("--mcp-tls-cert-file and --mcp-tls-key-file must be set together"))
	}
	errs = append(errs, o.validateNames()...)
	errs = append(errs, o.Identity.Validate(o.BindAddress)...)
	if _, err := tools.All().Filter(o.Tools); err != nil {
		errs = append(errs, fmt.Errorf("--mcp-toolsets, --mcp-enabled-tools, --mcp-disabled-tools and --mcp-read-only contradict each other: %w", err))
	}
	if o.InsideUnconfirmed && !slices.Contains(o.Tools.Toolsets, toolset.Inside) {
		errs = append(errs, fmt.Errorf("--mcp-inside-unconfirmed has no effect without toolset %s: add it to --mcp-toolsets, or leave the flag out", toolset.Inside))
	}
	if o.RateLimit < 0 || math.IsNaN(o.RateLimit) || math.IsInf(o.RateLimit, 0) {
		errs = append(errs, fmt.Errorf("--mcp-rate-limit=%g is not a number of requests a second; give one above 0, or 0 for no limit", o.RateLimit))
	}
	if o.RateLimit > 0 && o.RateBurst < 1 {
		errs = append(errs, fmt.Errorf("--mcp-rate-burst=%d would reject all requests; give at least 1, or --mcp-rate-limit=0 for no limit", o.RateBurst))
	}
	if o.MaxInFlight < 0 {
		errs = append(errs, fmt.Errorf("--mcp-max-in-flight=%d is below zero; give 0 for no limit", o.MaxInFlight))
	}
	return errs
}

func (o *Options) validateNames() []error {
	var errs []error
	for _, host := range o.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/*@ ") {
			errs = append(errs, fmt.Errorf("--mcp-allowed-hosts: %q is not a host name; give it without scheme, path and wildcard", host))
		}
	}
	for _, origin := range o.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
			errs = append(errs, fmt.Errorf("--mcp-allowed-origins: %q is not an origin; write it like https://tools.example.com", origin))
		}
	}
	for _, key := range o.UserExtra {
		if !callers.ValidExtraKey(key) {
			errs = append(errs, fmt.Errorf("--mcp-user-extra: %q is not a key of an extra attribute; write it in lower case, like example.com/email", key))
		}
	}
	return errs
}
