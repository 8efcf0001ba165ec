package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Endpoint is a port of a pod.
type Endpoint struct {
	Namespace, Pod string
	Port           int
}

// Forwarder forwards a local port to a port of a pod until ctx is done. Local 0 selects a free
// port. It calls ready once with the local port.
type Forwarder func(ctx context.Context, c *Cluster, to Endpoint, local int, ready func(local int)) error

// forward connects through kube-apiserver, with WebSockets, or with SPDY if kube-apiserver is
// older, as kubectl does. It listens only on loopback addresses.
func forward(ctx context.Context, c *Cluster, to Endpoint, local int, ready func(local int)) error {
	url := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.Namespace).Name(to.Pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return err
	}
	socket, err := portforward.NewSPDYOverWebsocketDialer(url, c.Config)
	if err != nil {
		return err
	}
	dialer := portforward.NewFallbackDialer(socket, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url),
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	isReady := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"localhost"}, []string{fmt.Sprintf("%d:%d", local, to.Port)},
		ctx.Done(), isReady, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return forwardError(to, err)
	case <-isReady:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return forwardError(to, err)
	}
	ready(int(ports[0].Local))
	return forwardError(to, <-ended)
}

func forwardError(to Endpoint, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, portforward.ErrLostConnectionToPod):
		return fmt.Errorf("the connection to pod %s/%s is lost, for example because it was replaced: call this again", to.Namespace, to.Pod)
	}
	return fmt.Errorf("forwarding port %d of pod %s/%s: %w", to.Port, to.Namespace, to.Pod, err)
}
