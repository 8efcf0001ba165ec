package mcpserver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// DefaultBindAddress is where the server listens unless told otherwise.
const DefaultBindAddress = ":8090"

// Options are the settings of the server that a person gives.
type Options struct {
	// BindAddress is host:port to listen on.
	BindAddress string
	// TLSCertFile and TLSKeyFile hold a certificate and its key. Both empty means
	// plain HTTP. They are read again when they change.
	TLSCertFile, TLSKeyFile string
	// AllowedHosts are names that a request may have in its Host header, besides
	// localhost, those of the Service, and plain addresses.
	AllowedHosts []string
	// AllowedOrigins are web origins, such as https://tools.example.com, whose
	// pages may call the server. The server's own origin may always.
	AllowedOrigins []string
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{BindAddress: DefaultBindAddress}
}

// AddFlags registers the options as flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "mcp-bind-address", o.BindAddress,
		"host:port on which the MCP server listens")
	fs.StringVar(&o.TLSCertFile, "mcp-tls-cert-file", o.TLSCertFile,
		"PEM certificate with which the MCP server serves TLS; read again when it changes (default: plain HTTP)")
	fs.StringVar(&o.TLSKeyFile, "mcp-tls-key-file", o.TLSKeyFile,
		"PEM key of --mcp-tls-cert-file")
	fs.StringSliceVar(&o.AllowedHosts, "mcp-allowed-hosts", o.AllowedHosts,
		"further names under which clients reach the MCP server, for example the host of an Ingress; "+
			"localhost, the names of Service coder-k8s and IP addresses are always allowed")
	fs.StringSliceVar(&o.AllowedOrigins, "mcp-allowed-origins", o.AllowedOrigins,
		"web origins (scheme://host[:port]) whose pages may call the MCP server, besides its own")
}

// Validate returns all problems at once.
func (o *Options) Validate() []error {
	var errs []error
	if _, _, err := net.SplitHostPort(o.BindAddress); err != nil {
		errs = append(errs, fmt.Errorf("--mcp-bind-address %q is not host:port, for example :8090", o.BindAddress))
	}
	if (o.TLSCertFile == "") != (o.TLSKeyFile == "") {
		errs = append(errs, errors.New("--mcp-tls-cert-file and --mcp-tls-key-file belong together: give both or neither"))
	}
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
	return errs
}
