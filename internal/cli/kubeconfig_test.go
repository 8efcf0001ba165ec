package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: a, user: ada, namespace: coder}}
- {name: b, context: {cluster: b, user: ada}}
clusters:
- {name: a, cluster: {server: https://a.example.com}}
- {name: b, cluster: {server: https://b.example.com}}
users:
- {name: ada, user: {token: secret}}
`

func TestKubeconfig(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "config")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(directory, "empty")
	if err := os.WriteFile(empty, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type result struct {
		Host, Token, Namespace string
		Impersonate            rest.ImpersonationConfig
	}
	for name, test := range map[string]struct {
		environment string
		args        []string
		want        result
		wantErr     string
	}{
		"the current context": {environment: file, want: result{Host: "https://a.example.com", Token: "secret", Namespace: "coder"}},
		"another context": {
			args: []string{"--kubeconfig", file, "--context", "b", "-n", "dev"},
			want: result{Host: "https://b.example.com", Token: "secret", Namespace: "dev"},
		},
		"a server without a kubeconfig": {
			environment: filepath.Join(directory, "missing"), args: []string{"-s", "https://c.example.com", "--token", "t"},
			want: result{Host: "https://c.example.com", Token: "t", Namespace: "default"},
		},
		"impersonation": {
			environment: file,
			args:        []string{"--as", "eve", "--as-group", "g", "--as-group", "h", "--as-uid", "1", "--as-user-extra", "k=v", "--as-user-extra", "k=w=x"},
			want: result{
				Host: "https://a.example.com", Token: "secret", Namespace: "coder",
				Impersonate: rest.ImpersonationConfig{UserName: "eve", UID: "1", Groups: []string{"g", "h"}, Extra: map[string][]string{"k": {"v", "w=x"}}},
			},
		},
		"an extra without a value": {environment: file, args: []string{"--as-user-extra", "k"}, wantErr: "must be KEY=VALUE"},
		"no kubeconfig":            {environment: filepath.Join(directory, "missing"), wantErr: "no cluster is configured in " + filepath.Join(directory, "missing") + "; give a kubeconfig with --kubeconfig"},
		"an empty kubeconfig":      {environment: empty, wantErr: "no cluster is configured in " + empty + "; give a kubeconfig with --kubeconfig"},
		"an unknown context":       {environment: file, args: []string{"--context", "c"}, wantErr: `context "c" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			got, err := selected(test.args)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("%v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			namespace, _, err := got.Loader().Namespace()
			if err != nil {
				t.Fatal(err)
			}
			config, err := got.Cluster("test")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, result{config.Host, config.BearerToken, namespace, config.Impersonate}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// selected returns the kubeconfig of a command with these arguments, or its first error.
func selected(args []string) (*Kubeconfig, error) {
	k := NewKubeconfig()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	k.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	_, err := k.Cluster("test")
	return k, err
}
