package supportbundle

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// tunnelFunc opens a port forward to a port of a pod, and returns its local address. end
// closes it.
type tunnelFunc func(ctx context.Context, namespace, pod string, port int64) (address string, end func(), err error)

// throughKubernetes opens port forwards in the same way as kubectl port-forward.
func throughKubernetes(config *rest.Config, kube kubernetes.Interface) tunnelFunc {
	return func(ctx context.Context, namespace, pod string, port int64) (string, func(), error) {
		dialer, err := newDialer(config, kube, namespace, pod)
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

// newDialer returns a dialer that uses WebSocket, and falls back to SPDY for older servers.
func newDialer(config *rest.Config, kube kubernetes.Interface, namespace, pod string) (httpstream.Dialer, error) {
	to := kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	modern, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(modern, old, httpstream.IsUpgradeFailure), nil
}
