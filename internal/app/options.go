package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
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
	ClusterDomain   string
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
	fs = sets.FlagSet("leader election")
	fs.BoolVar(&o.LeaderElection.Enabled, "leader-elect", o.LeaderElection.Enabled,
		"run the controllers on one replica only; the servers always run on all replicas")
	fs.StringVar(&o.LeaderElection.Namespace, "leader-election-namespace", o.LeaderElection.Namespace,
		"namespace of the Lease (default: $POD_NAMESPACE, else that of the pod's service account, else kube-system)")
	o.Log.addFlags(sets.FlagSet("logging"))
	o.Tracing.AddFlags(sets.FlagSet("tracing"))
	o.AggregatedAPI.AddFlags(sets.FlagSet("aggregated API server"))
	o.Coder.addFlags(sets.FlagSet("static Coder"))
	o.MCP.AddFlags(sets.FlagSet("MCP server"))
	return sets
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
	)
	if wrong := validation.IsDNS1123Subdomain(o.ClusterDomain); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--cluster-domain %q is not a DNS domain in lower case, for example cluster.local", o.ClusterDomain))
	}
	if o.ShutdownDelay < 0 || o.ShutdownDelay > time.Minute {
		errs = append(errs, fmt.Errorf("--shutdown-delay %s: must be between 0s and 1m", o.ShutdownDelay))
	}
	for i, namespace := range o.WatchNamespaces {
		switch {
		case len(validation.IsDNS1123Label(namespace)) > 0:
			errs = append(errs, fmt.Errorf("--watch-namespaces: %q is not the name of a namespace; give names separated by commas, for example team-a,team-b", namespace))
		case slices.Contains(o.WatchNamespaces[:i], namespace):
			errs = append(errs, fmt.Errorf("--watch-namespaces names %q twice: remove one", namespace))
		}
	}
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
	controllers := component{
		name: controllersName, elected: true, add: (*environment).addControllers,
		cached: func(*Options) bool { return true },
	}
	aggregatedAPI := component{
		name: aggregatedAPIName, add: (*environment).addAggregatedAPI,
		cached: func(o *Options) bool { return !o.Coder.static() },
	}
	mcp := component{name: mcpName, add: (*environment).addMCP, cached: func(*Options) bool { return false }}
	return []modeComponents{
		{ModeAll, []component{controllers, aggregatedAPI, mcp}},
		{ModeController, []component{controllers}},
		{ModeAggregatedAPIServer, []component{aggregatedAPI}},
		{ModeMCP, []component{mcp}},
	}
}

func modeNames() string {
	var names []string
	for _, line := range modes() {
		names = append(names, string(line.mode))
	}
	return strings.Join(names, ", ")
}

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
	inPod, _ := readFile(serviceAccountNamespace) // Empty outside of a pod.
	return cmp.Or(strings.TrimSpace(getenv(podNamespaceEnv)), strings.TrimSpace(string(inPod)), namespaceOutsideOfCluster)
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

// The flags of CoderOptions.
const (
	flagCoderURL       = "coder-url"
	flagCoderToken     = "coder-session-token"
	flagCoderTokenFile = "coder-session-token-file"
	flagCoderNamespace = "coder-namespace"
	flagCoderTimeout   = "coder-request-timeout"

	// maxCoderTimeout is less than the time for which other replicas respect the claim of a change, so that a change can
	// have several requests.
	maxCoderTimeout = 45 * time.Second
)

// CoderOptions configure a single Coder deployment that the aggregated API serves instead
// of the cluster's control planes.
type CoderOptions struct {
	URL, Token, TokenFile, Namespace string
	// RequestTimeout limits a request of the aggregated API to a Coder. The controllers use
	// coderd.DefaultTimeout.
	RequestTimeout time.Duration
}

func (o *CoderOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.URL, flagCoderURL, o.URL,
		"serve the Coder at this address, with --app=aggregated-apiserver, instead of discovering the control planes of the cluster")
	fs.StringVar(&o.Token, flagCoderToken, o.Token,
		"token for --coder-url; prefer --coder-session-token-file, because all users of a machine can read command lines")
	fs.StringVar(&o.TokenFile, flagCoderTokenFile, o.TokenFile,
		"file that contains the token for --coder-url; it is read again when the token in it is replaced")
	fs.StringVar(&o.Namespace, flagCoderNamespace, o.Namespace,
		"namespace in which the objects of --coder-url appear")
	fs.DurationVar(&o.RequestTimeout, flagCoderTimeout, o.RequestTimeout,
		"timeout of one request of the aggregated API to a Coder, at most 45s")
}

func (o *CoderOptions) static() bool {
	return o.URL != "" || o.Token != "" || o.TokenFile != "" || o.Namespace != ""
}

func (o *CoderOptions) validate(mode Mode, given func(flag string) bool) []error {
	var errs []error
	for _, flag := range []string{flagCoderURL, flagCoderToken, flagCoderTokenFile, flagCoderNamespace} {
		if given(flag) && mode != ModeAggregatedAPIServer {
			errs = append(errs, fmt.Errorf("--%s has no effect with --app=%s; it belongs to --app=%s", flag, mode, ModeAggregatedAPIServer))
		}
	}
	if given(flagCoderTimeout) && !slices.Contains([]Mode{ModeAll, ModeAggregatedAPIServer}, mode) {
		errs = append(errs, fmt.Errorf("--%s has no effect with --app=%s; it belongs to --app=%s and --app=%s",
			flagCoderTimeout, mode, ModeAll, ModeAggregatedAPIServer))
	}
	if o.RequestTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--%s=%s must be greater than zero", flagCoderTimeout, o.RequestTimeout))
	}
	if o.RequestTimeout > maxCoderTimeout {
		errs = append(errs, fmt.Errorf("--%s=%s must be at most %s, because another replica may change the same object after a minute",
			flagCoderTimeout, o.RequestTimeout, maxCoderTimeout))
	}
	if !o.static() {
		return errs
	}
	return append(errs, o.validateStatic()...)
}

func (o *CoderOptions) validateStatic() []error {
	var errs []error
	hasToken := o.Token != "" || o.TokenFile != ""
	switch {
	case o.URL == "" && hasToken:
		errs = append(errs, errors.New("a token is given without --coder-url: give both, or neither to discover the control planes of the cluster"))
	case o.URL == "":
		errs = append(errs, errors.New("--coder-namespace is given without --coder-url and a token: give all of them, or none to discover the control planes of the cluster"))
	case !hasToken:
		errs = append(errs, errors.New("--coder-url is given without a token: add --coder-session-token-file or --coder-session-token"))
	}
	if o.Token != "" && o.TokenFile != "" {
		errs = append(errs, errors.New("--coder-session-token and --coder-session-token-file are both given: keep one"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--coder-namespace is missing: set the namespace in which the objects of --coder-url appear"))
	}
	if o.URL != "" {
		if _, err := coderd.New(coderd.Config{URL: o.URL}); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flagCoderURL, err))
		}
	}
	return errs
}

// client returns a client for the configured Coder deployment, which newClient makes.
func (o *CoderOptions) client(newClient func(coderd.Config) (*coderd.Client, error)) (*coderd.Client, error) {
	config := coderd.Config{URL: o.URL, Token: o.Token, Timeout: o.RequestTimeout}
	if o.TokenFile != "" {
		token, err := readToken(o.TokenFile)
		if err != nil {
			return nil, err
		}
		var mu sync.Mutex
		// The file may be that of a mounted Secret, whose token is replaced.
		config.CurrentToken = func() string {
			mu.Lock()
			defer mu.Unlock()
			if newest, err := readToken(o.TokenFile); err == nil {
				token = newest
			}
			return token
		}
	}
	c, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagCoderURL, err)
	}
	return c, nil
}

func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading --%s: %w", flagCoderTokenFile, err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("--%s: %s is empty", flagCoderTokenFile, path)
	}
	return token, nil
}
