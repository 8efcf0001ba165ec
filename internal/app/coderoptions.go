package app

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

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

// static reports whether a single Coder deployment is configured.
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
		file := &tokenFile{path: o.TokenFile}
		if err := file.read(); err != nil {
			return nil, err
		}
		config.CurrentToken = file.current
	}
	c, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagCoderURL, err)
	}
	return c, nil
}

// tokenFile is a file with a token that may be replaced, such as that of a mounted Secret.
type tokenFile struct {
	path string

	mu    sync.Mutex
	token string
}

// read reads the token.
func (f *tokenFile) read() error {
	raw, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("reading --%s: %w", flagCoderTokenFile, err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return fmt.Errorf("--%s: %s is empty", flagCoderTokenFile, f.path)
	}
	f.token = token
	return nil
}

// current returns the token in the file, or the last one if it cannot be read.
func (f *tokenFile) current() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.read()
	return f.token
}
