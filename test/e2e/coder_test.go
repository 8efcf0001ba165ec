//go:build e2e

package e2e

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// secretValue reads one key of a Secret.
func secretValue(t *testing.T, namespace, name, key string) string {
	t.Helper()
	object := get(t, "-n", namespace, "secret", name)
	if object == nil {
		t.Fatalf("Secret %s/%s does not exist", namespace, name)
	}
	value, err := base64.StdEncoding.DecodeString(field(object, "data", key))
	if err != nil || len(value) == 0 {
		t.Fatalf("Secret %s/%s has no readable key %q: %v", namespace, name, key, err)
	}
	return string(value)
}

// coderURL returns the URL of a control plane for this machine, which can reach pod
// IPs and ClusterIPs directly.
func coderURL(t *testing.T, namespace, name string) string {
	t.Helper()
	service := get(t, "-n", namespace, "service", name)
	if service == nil {
		t.Fatalf("Service %s/%s does not exist", namespace, name)
	}
	return "http://" + inURL(field(service, "spec", "clusterIP"))
}

// login returns a client of Coder that acts as the first user. It retries, because
// just after pods were replaced, this machine may still connect to the previous
// pods.
func login(t *testing.T, namespace, name string) *coderd.Client {
	t.Helper()
	url := coderURL(t, namespace, name)
	anonymous, err := coderd.New(coderd.Config{URL: url, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	secret := name + "-initial-admin"
	email, password := secretValue(t, namespace, secret, "email"), secretValue(t, namespace, secret, "password")
	var token string
	polltest.Eventually(t, fmt.Sprintf("a login to Coder with Secret %s/%s", namespace, secret), func() error {
		token, err = anonymous.Login(t.Context(), email, password)
		if err != nil && !coderd.IsUnreachable(err) {
			t.Fatalf("logging in to Coder with Secret %s/%s: %v", namespace, secret, err)
		}
		return err
	})
	client, err := coderd.New(coderd.Config{URL: url, Token: token, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// tokensOf returns the operator's tokens in Coder. Like login, it retries if the
// connection leads to pods that no longer exist.
func tokensOf(t *testing.T, client *coderd.Client) (tokens []coderd.TokenInfo) {
	t.Helper()
	polltest.Eventually(t, "Coder tells of the operator's tokens", func() (err error) {
		tokens, err = client.TokensOf(t.Context(), "coder-k8s-operator")
		return err
	})
	return tokens
}

// buildStatus waits until the newest build of a workspace has a status in Coder.
func buildStatus(t *testing.T, client *coderd.Client, owner, name, want string) coderd.Workspace {
	t.Helper()
	var workspace coderd.Workspace
	polltest.Eventually(t, fmt.Sprintf("workspace %s/%s is %s in Coder", owner, name, want), func() error {
		var err error
		workspace, err = client.WorkspaceByName(t.Context(), owner, name)
		if err != nil {
			return err
		}
		if workspace.LatestBuild.Status != want {
			return fmt.Errorf("its newest build is %s %s", workspace.LatestBuild.Status, workspace.LatestBuild.Error)
		}
		return nil
	})
	return workspace
}

// build starts a build in Coder, as a user does there.
func build(t *testing.T, client *coderd.Client, workspace coderd.Workspace, transition coderd.Transition) {
	t.Helper()
	if _, err := client.Build(t.Context(), workspace.ID, coderd.BuildRequest{Transition: transition}); err != nil {
		t.Fatalf("%s of %s in Coder: %v", transition, workspace.Name, err)
	}
}
