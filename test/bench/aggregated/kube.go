package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coder-k8s/coder-k8s/test/bench/measure"
)

const workspaces = "/apis/aggregation.coder.com/v1alpha1/coderworkspaces"

func workspacesIn(namespace string) string {
	return "/apis/aggregation.coder.com/v1alpha1/namespaces/" + namespace + "/coderworkspaces"
}

// kube is a client of the cluster, and of Coder.
type kube struct {
	options
	config *rest.Config
	// client is an administrator's over HTTP/2. It requests no compression, because that would
	// measure gzip.
	client *http.Client
	// direct trusts any certificate: it connects only to this machine.
	direct *http.Client
	// account is the token of a ServiceAccount, and token the operator's token for Coder.
	account, token string
	// pod is the address of the operator, and process its process.
	pod     string
	process procfs.Proc
}

func newKube(ctx context.Context, o options) (*kube, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS, config.DisableCompression = -1, true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	account, err := os.ReadFile(o.account)
	if err != nil {
		return nil, err
	}
	k := &kube{options: o, config: config, client: client, direct: measure.AnyCertificate(), account: strings.TrimSpace(string(account))}
	token, err := k.kubectl(ctx, "-n", o.namespace, "get", "secret", "coder-operator-token", "-o", "go-template={{.data.token | base64decode}}")
	if err != nil {
		return nil, err
	}
	k.token = strings.TrimSpace(token)
	return k, k.locate(ctx)
}

func (k *kube) kubectl(ctx context.Context, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig", k.kubeconfig}, args...)...))
}

func output(command *exec.Cmd) (string, error) {
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, strings.TrimSpace(problems.String()))
	}
	return string(out), nil
}

// bearer returns the header of a bearer token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// send sends a request and returns the response, whose body the caller must close. A body is JSON.
func send(ctx context.Context, client *http.Client, method, address string, header http.Header, body any) (*http.Response, error) {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Accept", "application/json")
	switch method {
	case http.MethodPost:
		request.Header.Set("Content-Type", "application/json")
	case http.MethodPatch:
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		content, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, address, response.Status, content)
	}
	return response, nil
}

// timed sends a request, discards the body, and returns the duration and the number
// of bytes.
func timed(ctx context.Context, client *http.Client, address string, header http.Header) (time.Duration, int64, error) {
	began := time.Now()
	response, err := send(ctx, client, http.MethodGet, address, header, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	size, err := io.Copy(io.Discard, response.Body)
	return time.Since(began), size, err
}

// exchange sends a request, and decodes the response into out. If out is nil, it reads the response
// to its end.
func exchange(ctx context.Context, client *http.Client, method, address string, header http.Header, body, out any) error {
	response, err := send(ctx, client, method, address, header, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if out == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(out)
}

// request sends a request to the cluster as an administrator.
func (k *kube) request(ctx context.Context, method, path string, body, out any) error {
	return exchange(ctx, k.client, method, k.config.Host+path, nil, body, out)
}

// askCoder sends a request to Coder with the operator's token.
func (k *kube) askCoder(ctx context.Context, method, path string, body, out any) error {
	return exchange(ctx, http.DefaultClient, method, k.coder+path, http.Header{"Coder-Session-Token": {k.token}}, body, out)
}

// until repeats a check until it returns no error.
func until(ctx context.Context, every time.Duration, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		if ended := measure.Pause(ctx, every); ended != nil {
			return errors.Join(ended, err)
		}
	}
}
