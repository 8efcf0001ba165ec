package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// parse parses args as the process does, and returns the error of the validation.
func parse(t *testing.T, args ...string) (*Options, error) {
	t.Helper()
	options := NewOptions()
	var err error
	cmd := newCommand(options, genericiooptions.NewTestIOStreamsDiscard(), nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err = options.Validate(cmd.Flags().Changed)
		return nil
	}
	cmd.SetArgs(args)
	if e := cmd.Execute(); e != nil {
		t.Fatal(e)
	}
	return options, err
}

func TestGoodCommandLines(t *testing.T) {
	static := []string{"--app=aggregated-apiserver", "--coder-url=https://coder.example.com", "--coder-namespace=coder"}
	tests := map[string][]string{
		"nothing":                               nil,
		"all":                                   {"--app=all"},
		"controller":                            {"--app=controller"},
		"aggregated API with discovery":         {"--app=aggregated-apiserver"},
		"MCP":                                   {"--app=mcp-http"},
		"static with a token":                   append([]string{"--coder-session-token=x"}, static...),
		"static with a token file":              append([]string{"--coder-session-token-file=/x"}, static...),
		"static with a scheme in capitals":      append([]string{"--coder-session-token=x", "--coder-url=HTTPS://coder.example.com"}, static[0], static[2]),
		"the timeout in all":                    {"--coder-request-timeout=45s"},
		"the timeout with the aggregated API":   {"--app=aggregated-apiserver", "--coder-request-timeout=45s"},
		"metrics off":                           {"--metrics-bind-address=0"},
		"MCP off":                               {"--mcp-bind-address=0", "--mcp-auth=none"},
		"log level debug":                       {"--log-level=debug", "--log-format=console"},
		"log level as a number":                 {"--log-level=4"},
		"a coder flag at its default elsewhere": {"--app=controller"},
		"two namespaces":                        {"--watch-namespaces=team-a,team-b"},
		"a cluster domain":                      {"--cluster-domain=cluster.example.com"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, args...); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		})
	}
}

func TestBadCommandLines(t *testing.T) {
	tests := map[string]struct {
		args []string
		says []string
	}{
		"an unknown mode":                     {[]string{"--app=x"}, []string{"--app=x is not known; it is one of: all, controller, aggregated-apiserver, mcp-http"}},
		"a static Coder in all":               {[]string{"--coder-url=https://a", "--coder-session-token=x", "--coder-namespace=n"}, []string{"--coder-url has no effect with --app=all", "--coder-session-token has no effect", "--coder-namespace has no effect"}},
		"a static Coder with MCP":             {[]string{"--app=mcp-http", "--coder-session-token-file=/x"}, []string{"--coder-session-token-file has no effect with --app=mcp-http; it belongs to --app=aggregated-apiserver"}},
		"an empty static Coder in all":        {[]string{"--coder-url="}, []string{"--coder-url has no effect with --app=all"}},
		"the timeout with the controllers":    {[]string{"--app=controller", "--coder-request-timeout=1m"}, []string{"--coder-request-timeout has no effect with --app=controller"}},
		"a timeout of a minute":               {[]string{"--coder-request-timeout=1m"}, []string{"--coder-request-timeout=1m0s must be at most 45s"}},
		"no timeout":                          {[]string{"--coder-request-timeout=0s"}, []string{"--coder-request-timeout=0s"}},
		"an address without a token":          {[]string{"--app=aggregated-apiserver", "--coder-url=https://a", "--coder-namespace=n"}, []string{"--coder-url is given without a token"}},
		"a token without an address":          {[]string{"--app=aggregated-apiserver", "--coder-session-token=x", "--coder-namespace=n"}, []string{"a token is given without --coder-url"}},
		"a namespace alone":                   {[]string{"--app=aggregated-apiserver", "--coder-namespace=n"}, []string{"--coder-namespace is given without --coder-url"}},
		"no namespace":                        {[]string{"--app=aggregated-apiserver", "--coder-url=https://a", "--coder-session-token=x"}, []string{"--coder-namespace is missing"}},
		"two tokens":                          {[]string{"--app=aggregated-apiserver", "--coder-url=https://a", "--coder-session-token=x", "--coder-session-token-file=/x", "--coder-namespace=n"}, []string{"are both given"}},
		"an address of another kind":          {[]string{"--app=aggregated-apiserver", "--coder-url=ftp://a", "--coder-session-token=x", "--coder-namespace=n"}, []string{`"ftp://a" must begin with http:// or https://`}},
		"an address without a scheme":         {[]string{"--app=aggregated-apiserver", "--coder-url=a.example.com", "--coder-session-token=x", "--coder-namespace=n"}, []string{`--coder-url: `, `"a.example.com" must begin with http`}},
		"an address without a host":           {[]string{"--app=aggregated-apiserver", "--coder-url=https://", "--coder-session-token=x", "--coder-namespace=n"}, []string{"has no host"}},
		"an address with a password":          {[]string{"--app=aggregated-apiserver", "--coder-url=https://me:hunter2@a", "--coder-session-token=x", "--coder-namespace=n"}, []string{"must not contain a user or a password"}},
		"an address that cannot be read":      {[]string{"--app=aggregated-apiserver", "--coder-url=https://me:hunter2@a b", "--coder-session-token=x", "--coder-namespace=n"}, []string{"--coder-url: ", "it cannot be parsed"}},
		"all mistakes at once":                {[]string{"--app=x", "--log-level=loud", "--log-format=xml", "--mcp-bind-address=y", "--health-probe-bind-address=z", "--metrics-bind-address=w"}, []string{"--app", "--log-format", "--mcp-bind-address", "--health-probe-bind-address", "--metrics-bind-address"}},
		"a ratio of traces above one":         {[]string{"--tracing-endpoint=otel:4317", "--tracing-sampling-ratio=1.5"}, []string{"--tracing-sampling-ratio=1.5"}},
		"a CA without a collector":            {[]string{"--tracing-ca-file=/x"}, []string{"--tracing-endpoint"}},
		"a log level that is none":            {[]string{"--log-level=11"}, []string{"--log-level=11"}},
		"a half certificate of the API":       {[]string{"--tls-cert-file=/x"}, []string{"--tls-private-key-file"}},
		"a half certificate of MCP":           {[]string{"--mcp-tls-key-file=/x"}, []string{"--mcp-tls-cert-file"}},
		"MCP off where nothing else runs":     {[]string{"--app=mcp-http", "--mcp-bind-address=0"}, []string{"--mcp-bind-address=0 disables everything that --app=mcp-http runs"}},
		"MCP for everybody on all addresses":  {[]string{"--mcp-auth=none"}, []string{"--mcp-auth=none", "--mcp-bind-address=127.0.0.1:8090"}},
		"probes cannot be switched off":       {[]string{"--health-probe-bind-address=0"}, []string{"--health-probe-bind-address"}},
		"a probe address without a port":      {[]string{"--health-probe-bind-address=localhost:"}, []string{"--health-probe-bind-address"}},
		"a namespace that is none":            {[]string{"--watch-namespaces=team-a,Team B"}, []string{`--watch-namespaces: "Team B" is not the name of a namespace`}},
		"an empty namespace":                  {[]string{"--watch-namespaces=team-a,,team-b"}, []string{`--watch-namespaces: "" is not`}},
		"a namespace twice":                   {[]string{"--watch-namespaces=team-a,team-a"}, []string{`names "team-a" twice`}},
		"a cluster domain that is none":       {[]string{"--cluster-domain=.local."}, []string{`--cluster-domain ".local." is not a DNS domain`}},
		"no cluster domain":                   {[]string{"--cluster-domain="}, []string{`--cluster-domain "" is not`}},
		"the aggregated API without its port": {[]string{"--secure-port=0"}, []string{"--secure-port"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, tc.args...)
			if err == nil {
				t.Fatalf("%q is taken", tc.args)
			}
			for _, says := range tc.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("the error does not say %q: %v", says, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		file string
		says string
	}{
		"with a token":   {write("good", " token\n"), ""},
		"empty":          {write("empty", "\n"), "is empty"},
		"does not exist": {filepath.Join(dir, "none"), "--coder-session-token-file"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := CoderOptions{URL: "https://coder.example.com", TokenFile: tc.file}
			_, err := o.client(coderd.New)
			if (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("the error is %v, want one with %q", err, tc.says)
			}
		})
	}
}

// The alerts about Coder need the requests to the Coder of --coder-url too.
func TestRequestsToTheCoderOfTheFlagsAreCounted(t *testing.T) {
	coder := httptest.NewServer(http.NotFoundHandler())
	defer coder.Close()
	registry := prometheus.NewRegistry()
	metrics, err := coderd.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	env := &environment{coderMetrics: metrics, options: &Options{Coder: CoderOptions{URL: coder.URL, Token: "token", Namespace: "team"}}}
	provider, err := env.connections()
	if err != nil {
		t.Fatal(err)
	}
	all, err := provider.ForNamespace(t.Context(), "team")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d connections, error %v; want 1", len(all), err)
	}
	_, _ = all[0].Client.Me(t.Context())
	if n, err := testutil.GatherAndCount(registry, "coder_k8s_coder_requests_total"); n != 1 || err != nil {
		t.Errorf("%d series of requests, error %v; want 1", n, err)
	}
}

// TestTokenFileIsReadAgain checks that a token that is replaced is used from then on, and that the
// last one is used while there is none.
func TestTokenFileIsReadAgain(t *testing.T) {
	sent := make(chan string, 1)
	coder := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("Coder-Session-Token")
	}))
	defer coder.Close()
	path := filepath.Join(t.TempDir(), "token")
	write := func(content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old\n")
	o := CoderOptions{URL: coder.URL, TokenFile: path}
	c, err := o.client(coderd.New)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what   string
		change func()
		want   string
	}{
		{"at first", func() {}, "old"},
		{"replaced", func() { write("new\n") }, "new"},
		{"empty", func() { write("\n") }, "new"},
		{"removed", func() { _ = os.Remove(path) }, "new"},
		{"written again", func() { write("newest") }, "newest"},
	} {
		step.change()
		// The server's answer is not that of Coder.
		_, _ = c.Me(t.Context())
		if got := <-sent; got != step.want {
			t.Errorf("%s: it sends the token %q, want %q", step.what, got, step.want)
		}
	}
}

func TestInCluster(t *testing.T) {
	for want, host := range map[bool]string{true: "10.0.0.1", false: ""} {
		getenv := func(name string) string {
			if name == "KUBERNETES_SERVICE_HOST" {
				return host
			}
			return ""
		}
		if got := inCluster(getenv); got != want {
			t.Errorf("with %q it is %v", host, got)
		}
	}
}

func TestPodNamespace(t *testing.T) {
	tests := map[string]struct {
		env, file string
		want      string
	}{
		"the environment first":      {"from-env", "from-file", "from-env"},
		"then the service account":   {"", "from-file\n", "from-file"},
		"then kube-system":           {"", "", "kube-system"},
		"blank is nothing":           {" ", " \n", "kube-system"},
		"the environment is trimmed": {" from-env\n", "", "from-env"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := podNamespace(func(key string) string {
				if key != "POD_NAMESPACE" {
					t.Errorf("asked for %s", key)
				}
				return tc.env
			}, func(string) ([]byte, error) {
				if tc.file == "" {
					return nil, os.ErrNotExist
				}
				return []byte(tc.file), nil
			})
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTableOfModes(t *testing.T) {
	type part struct {
		Name    string
		Elected bool
	}
	controllers, api, mcp := part{"controllers", true}, part{"aggregated-api", false}, part{"mcp", false}
	want := map[Mode][]part{
		ModeAll:                 {controllers, api, mcp},
		ModeController:          {controllers},
		ModeAggregatedAPIServer: {api},
		ModeMCP:                 {mcp},
	}
	got := map[Mode][]part{}
	for _, line := range modes() {
		for _, c := range line.components {
			got[line.mode] = append(got[line.mode], part{c.name, c.elected})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllIsTheUnion(t *testing.T) {
	var all, others []string
	for _, line := range modes() {
		for _, c := range line.components {
			if line.mode == ModeAll {
				all = append(all, c.name)
			} else {
				others = append(others, c.name)
			}
		}
	}
	slices.Sort(all)
	slices.Sort(others)
	if diff := cmp.Diff(others, all); diff != "" {
		t.Errorf("(-others +all):\n%s", diff)
	}
}

func TestOnlyAStaticCoderNeedsNoCache(t *testing.T) {
	components, err := ModeAggregatedAPIServer.components()
	if err != nil {
		t.Fatal(err)
	}
	api := components[0]
	if o := NewOptions(); !api.cached(o) {
		t.Error("discovery needs the cache of control planes")
	}
	o := NewOptions()
	o.Coder.URL = "https://coder.example.com"
	if api.cached(o) {
		t.Error("a static Coder must not need the custom resource definitions")
	}
}

func TestPodIPv6(t *testing.T) {
	for ip, want := range map[string]bool{"": false, "10.0.0.7": false, "2001:db8::7": true, "::ffff:10.0.0.7": false, "nonsense": false} {
		if got := podIPv6(func(string) string { return ip }); got != want {
			t.Errorf("%q: %t", ip, got)
		}
	}
}
