package supportbundle

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// metricsPort is the name of the port that serves /metrics.
	metricsPort = "metrics"
	// metricsTimeout limits the time for reading the metrics of one pod.
	metricsTimeout = 20 * time.Second
	// mostMetrics limits the size of the metrics of one pod, in bytes.
	mostMetrics = 16 << 20
)

// metrics collects the metrics of the operator's pods. The proxy of kube-apiserver does not
// forward tokens, so they are read through a port forward. They are read with a separate
// token: the caller's own token is sent only to kube-apiserver.
func (c *collector) metrics(ctx context.Context, s *scope) {
	if c.metricsToken == "" {
		return
	}
	for _, p := range s.pods {
		port := portOf(p.pod)
		if !p.operator || port == 0 {
			continue
		}
		text, err := c.podMetrics(ctx, p.pod, port)
		if err != nil {
			c.leave("the metrics of pod "+p.pod.Name, err)
			continue
		}
		c.addText(path.Join("installation", "metrics", p.pod.Name+".txt"), text)
	}
}

func (c *collector) podMetrics(ctx context.Context, pod *corev1.Pod, port int32) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	read := false
	to := c.kube.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("portforward").URL()
	forwardErr := c.forward(ctx, c.config, to, 0, int(port), func(local int) {
		text, err = c.readMetrics(ctx, local)
		read = true
		cancel()
	})
	if !read {
		return "", fmt.Errorf("forwarding port %d of pod %s: %w", port, pod.Name, forwardErr)
	}
	return text, err
}

// readMetrics reads the metrics from a local port.
func (c *collector) readMetrics(ctx context.Context, local int) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", local), nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.metricsToken)
	// kube-apiserver and the kubelet ensure that the port forward ends in the pod. The
	// certificate is issued for another name.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostMetrics))
	if err == nil {
		// As for logs: after the timeout, the response may be incomplete.
		err = ctx.Err()
	}
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the response is %s; the token of --metrics-token-file needs the permission to get /metrics", response.Status)
	}
	return string(body), nil
}

// portOf returns the number of the port that serves /metrics, or 0 if there is none.
func portOf(pod *corev1.Pod) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == metricsPort {
				return port.ContainerPort
			}
		}
	}
	return 0
}
