package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const workspaces = "/apis/aggregation.coder.com/v1alpha1/coderworkspaces"

// kube is a client of the cluster, and of Coder.
type kube struct {
	options
	config *rest.Config
	// client is an administrator's over HTTP/2. It requests no compression, because that would
	// measure gzip.
	client *http.Client
	// direct trusts any certificate: it connects only to this machine.
	direct  *http.Client
	account string
	// token is the operator's token for Coder.
	token string
	// pod is the address of the operator, pid its process, and since the start of that process.
	pod string
	pid int
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
	k := &kube{options: o, config: config, client: client, direct: anyCertificate(), account: strings.TrimSpace(string(account))}
	token, err := k.kubectl(ctx, "-n", o.namespace, "get", "secret", "coder-operator-token", "-o", "go-template={{.data.token | base64decode}}")
	if err != nil {
		return nil, err
	}
	k.token = strings.TrimSpace(token)
	return k, k.locate(ctx)
}

func anyCertificate() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 4,
	}}
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

// send sends a request and returns the response, whose body the caller must close.
func send(ctx context.Context, client *http.Client, method, address, token, contentType string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		content, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		_ = response.Body.Close()
		return nil, &refused{response.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, address, response.Status, content)}
	}
	return response, nil
}

// refused is an unsuccessful response.
type refused struct {
	status  int
	message string
}

// Error implements error.
func (r *refused) Error() string { return r.message }

// timed sends a request, discards the body, and returns the duration and the number
// of bytes.
func timed(ctx context.Context, client *http.Client, address, token string) (time.Duration, int64, error) {
	began := time.Now()
	response, err := send(ctx, client, http.MethodGet, address, token, "", nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	size, err := io.Copy(io.Discard, response.Body)
	return time.Since(began), size, err
}

// request sends a request as an administrator, and decodes the response into out,
// unless that is nil.
func (k *kube) request(ctx context.Context, method, path, contentType string, body, out any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	response, err := send(ctx, k.client, method, k.config.Host+path, "", contentType, content)
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

// until repeats a check until it returns no error.
func until(ctx context.Context, every time.Duration, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(every):
		}
	}
}
