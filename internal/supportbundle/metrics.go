package supportbundle

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// metricsPort is the name of the port that serves /metrics.
	metricsPort = "metrics"
	// metricsTimeout bounds the reading from one pod.
	metricsTimeout = 20 * time.Second
	// mostMetrics bounds what one pod may tell.
	mostMetrics = 16 << 20
)

// metrics collects the metrics of the operator's pods. kube-apiserver passes no
// token on, so they are read through a tunnel, with a token that was given for that
// alone: the caller's own goes to kube-apiserver and to nobody else.
func (c *collector) metrics(ctx context.Context, s *scope) {
	if c.metricsToken == "" {
		return
	}
	for _, p := range s.pods {
		port := portOf(p.pod, metricsPort)
		if !p.operator || port == 0 {
			continue
		}
		text, err := c.podMetrics(ctx, p.pod, port)
		if err != nil {
			c.leave("the metrics of pod "+p.pod.GetName(), err)
			continue
		}
		c.addText(path.Join("installation", "metrics", p.pod.GetName()+".txt"), text)
	}
}

func (c *collector) podMetrics(ctx context.Context, pod *unstructured.Unstructured, port int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	address, end, err := c.tunnel(ctx, pod.GetNamespace(), pod.GetName(), port)
	if err != nil {
		return "", err
	}
	defer end()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.metricsToken)
	// kube-apiserver and the kubelet answer for where the tunnel ends. The certificate
	// is for another name.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostMetrics))
	if err == nil {
		// As for logs: what came then may be the end of the connection, not of the answer.
		err = ctx.Err()
	}
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the answer is %s; the token of --metrics-token-file needs the right to get /metrics", response.Status)
	}
	return string(body), nil
}

// portOf gives the port of that name. It is 0 where there is none.
func portOf(pod *unstructured.Unstructured, name string) int64 {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, item := range containers {
		container, _ := item.(map[string]any)
		ports, _, _ := unstructured.NestedSlice(container, "ports")
		for _, item := range ports {
			if port, ok := item.(map[string]any); ok && port["name"] == name {
				number, _ := port["containerPort"].(int64)
				return number
			}
		}
	}
	return 0
}
