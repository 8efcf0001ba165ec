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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
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

func (c *collector) podMetrics(ctx context.Context, pod *corev1.Pod, port int32) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	address, end, err := c.tunnel(ctx, pod.Namespace, pod.Name, port)
	if err != nil {
		return "", err
	}
	defer end()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
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

// tunnelFunc opens a port forward to a port of a pod, and returns its local address. end
// closes it.
type tunnelFunc func(ctx context.Context, namespace, pod string, port int32) (address string, end func(), err error)

// throughKubernetes opens port forwards in the same way as kubectl port-forward.
func throughKubernetes(config *rest.Config, kube kubernetes.Interface) tunnelFunc {
	return func(ctx context.Context, namespace, pod string, port int32) (string, func(), error) {
		to := kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
		dialer, err := remoteexec.NewForwardDialer(config, to)
		if err != nil {
			return "", nil, err
		}
		stop, ready := make(chan struct{}), make(chan struct{})
		forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
		if err != nil {
			return "", nil, err
		}
		var failure error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			failure = forwarder.ForwardPorts()
		}()
		select {
		case <-ended:
			return "", nil, fmt.Errorf("opening a tunnel to pod %s: %w", pod, failure)
		case <-ctx.Done():
			close(stop)
			return "", nil, ctx.Err()
		case <-ready:
		}
		ports, err := forwarder.GetPorts()
		if err != nil || len(ports) != 1 {
			close(stop)
			return "", nil, fmt.Errorf("opening a tunnel to pod %s gave %d ports: %w", pod, len(ports), err)
		}
		return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), func() {
			close(stop)
			<-ended
		}, nil
	}
}
