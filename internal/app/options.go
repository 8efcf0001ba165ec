package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/coder-k8s/coder-k8s/internal/apiserver"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// off is the address that disables a listener.
const off = "0"

// Options are all flags of the process.
type Options struct {
	Mode       Mode
	Kubeconfig string
	// HealthProbeBindAddress is the address of /healthz and /readyz, in every mode.
	HealthProbeBindAddress string
	// WatchNamespaces are the namespaces to work in. Empty means all.
	WatchNamespaces []string
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// ShutdownDelay is how long the process continues to work after the signal to stop.
	ShutdownDelay time.Duration

	Metrics        MetricsOptions
	LeaderElection LeaderElectionOptions
	Log            LogOptions
	Tracing        tracing.Options
	Coder          CoderOptions
	AggregatedAPI  *apiserver.Options
	MCP            *mcpserver.Options
}

// LeaderElectionOptions configure the leader election of the controllers.
type LeaderElectionOptions struct {
	Enabled bool
	// Namespace is the namespace of the Lease; it defaults to that of the pod.
	Namespace string
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Mode:                   ModeAll,
		HealthProbeBindAddress: ":8081",
		ClusterDomain:          "cluster.local",
		Metrics:                MetricsOptions{BindAddress: ":8443"},
		LeaderElection:         LeaderElectionOptions{Enabled: true},
		Log:                    LogOptions{Format: logFormatJSON, Level: "info"},
		Tracing:                tracing.NewOptions(),
		Coder:                  CoderOptions{RequestTimeout: coderd.DefaultTimeout},
		AggregatedAPI:          apiserver.NewOptions(),
		MCP:                    mcpserver.NewOptions(),
	}
}

// FlagSets returns the flags, by section of --help.
func (o *Options) FlagSets() cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets
	fs := sets.FlagSet("process")
	fs.StringVar((*string)(&o.Mode), "app", string(o.Mode), "what to run: "+modeNames())
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"kubeconfig of the cluster (default: $KUBECONFIG, else the pod's own service account, else ~/.kube/config)")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress,
		"host:port that serves /healthz and /readyz over plain HTTP")
	fs.StringSliceVar(&o.WatchNamespaces, "watch-namespaces", o.WatchNamespaces,
		"namespaces to watch, separated by commas; the operator then needs no permissions in other namespaces (default: all)")
	fs.StringVar(&o.ClusterDomain, "cluster-domain", o.ClusterDomain,
		"DNS domain of the cluster, used in the addresses of Services")
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay", o.ShutdownDelay,
		"how long the process keeps serving after SIGTERM, until Services no longer route to this pod (at most 1m)")

	o.Metrics.addFlags(sets.FlagSet("metrics"))
	o.LeaderElection.addFlags(sets.FlagSet("leader election"))
	o.Log.addFlags(sets.FlagSet("logging"))
	o.Tracing.AddFlags(sets.FlagSet("tracing"))
	o.AggregatedAPI.AddFlags(sets.FlagSet("aggregated API server"))
	o.Coder.addFlags(sets.FlagSet("static Coder"))
	o.MCP.AddFlags(sets.FlagSet("MCP server"))
	return sets
}

func (o *LeaderElectionOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "leader-elect", o.Enabled,
		"run the controllers on one replica only; the servers always run on all replicas")
	fs.StringVar(&o.Namespace, "leader-election-namespace", o.Namespace,
		"namespace of the Lease (default: $POD_NAMESPACE, else that of the pod's service account, else kube-system)")
}

// Validate returns all errors joined. given reports whether a flag was set on the command
// line.
func (o *Options) Validate(given func(flag string) bool) error {
	var errs []error
	if _, err := o.Mode.components(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs,
		validateAddress("--health-probe-bind-address", o.HealthProbeBindAddress),
		o.Log.validate(),
		validateClusterDomain(o.ClusterDomain),
		validateShutdownDelay(o.ShutdownDelay),
	)
	errs = append(errs, validateNamespaces(o.WatchNamespaces)...)
	errs = append(errs, o.Metrics.validate()...)
	errs = append(errs, o.Coder.validate(o.Mode, given)...)
	errs = append(errs, o.Tracing.Validate()...)
	errs = append(errs, o.AggregatedAPI.Validate()...)
	errs = append(errs, o.MCP.Validate()...)
	if o.Mode == ModeMCP && o.MCP.Off() {
		errs = append(errs, fmt.Errorf("--mcp-bind-address=0 disables everything that --app=%s runs; set an address, for example %s", o.Mode, mcpserver.DefaultBindAddress))
	}
	return errors.Join(errs...)
}

func validateAddress(flag, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("%s %q is not host:port, for example :8081", flag, address)
	}
	return nil
}

func validateClusterDomain(domain string) error {
	if wrong := validation.IsDNS1123Subdomain(domain); len(wrong) > 0 {
		return fmt.Errorf("--cluster-domain %q is not a DNS domain in lower case, for example cluster.local", domain)
	}
	return nil
}

func validateNamespaces(namespaces []string) []error {
	var errs []error
	for i, namespace := range namespaces {
		switch {
		case len(validation.IsDNS1123Label(namespace)) > 0:
			errs = append(errs, fmt.Errorf("--watch-namespaces: %q is not the name of a namespace; give names separated by commas, for example team-a,team-b", namespace))
		case slices.Contains(namespaces[:i], namespace):
			errs = append(errs, fmt.Errorf("--watch-namespaces names %q twice: remove one", namespace))
		}
	}
	return errs
}

func validateShutdownDelay(delay time.Duration) error {
	if delay < 0 || delay > time.Minute {
		return fmt.Errorf("--shutdown-delay %s: must be between 0s and 1m", delay)
	}
	return nil
}

// Mode selects the components that a process runs.
type Mode string

// The modes.
const (
	ModeAll                 Mode = "all"
	ModeController          Mode = "controller"
	ModeAggregatedAPIServer Mode = "aggregated-apiserver"
	ModeMCP                 Mode = "mcp-http"
)

// modeComponents is one row of the table of modes.
type modeComponents struct {
	mode       Mode
	components []component
}

// modes returns the table of modes, in the order in which the help lists them.
func modes() []modeComponents {
	controllers, aggregatedAPI, mcp := controllersComponent(), aggregatedAPIComponent(), mcpComponent()
	return []modeComponents{
		{ModeAll, []component{controllers, aggregatedAPI, mcp}},
		{ModeController, []component{controllers}},
		{ModeAggregatedAPIServer, []component{aggregatedAPI}},
		{ModeMCP, []component{mcp}},
	}
}

// modeNames returns the modes as a list for messages.
func modeNames() string {
	var names []string
	for _, line := range modes() {
		names = append(names, string(line.mode))
	}
	return strings.Join(names, ", ")
}

// components returns the components of a mode.
func (m Mode) components() ([]component, error) {
	for _, line := range modes() {
		if line.mode == m {
			return line.components, nil
		}
	}
	return nil, fmt.Errorf("--app=%s is not known; it is one of: %s", m, modeNames())
}

const (
	podNamespaceEnv           = "POD_NAMESPACE"
	serviceAccountNamespace   = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	namespaceOutsideOfCluster = "kube-system"
)

// podNamespace returns the namespace of the pod, or kube-system if it is unknown.
func podNamespace(getenv func(string) string, readFile func(string) ([]byte, error)) string {
	if namespace := strings.TrimSpace(getenv(podNamespaceEnv)); namespace != "" {
		return namespace
	}
	if raw, err := readFile(serviceAccountNamespace); err == nil {
		if namespace := strings.TrimSpace(string(raw)); namespace != "" {
			return namespace
		}
	}
	return namespaceOutsideOfCluster
}

// inCluster reports whether the process runs in a pod. Kubernetes sets this variable in
// every container.
func inCluster(getenv func(string) string) bool { return getenv("KUBERNETES_SERVICE_HOST") != "" }

const (
	podNameEnv = "POD_NAME"
	podIPEnv   = "POD_IP"
	// podImageEnv is the image of the operator's own pod.
	podImageEnv = "POD_IMAGE"
)

// podIPv6 reports whether the primary address of pods in this cluster is an IPv6 address.
// It checks the address of the operator's own pod, and returns false if that is unknown.
func podIPv6(getenv func(string) string) bool {
	ip, err := netip.ParseAddr(strings.TrimSpace(getenv(podIPEnv)))
	return err == nil && ip.Is6() && !ip.Is4In6()
}

// ownIdentity returns a unique name of this process: the name of its pod, or the host name
// with the process ID.
func ownIdentity() string {
	if name := strings.TrimSpace(os.Getenv(podNameEnv)); name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "coder-k8s"
	}
	return fmt.Sprintf("%s-%d", strings.ToLower(host), os.Getpid())
}
