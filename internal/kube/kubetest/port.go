package kubetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports for programs: below the kernel's ephemeral ports and the PostgreSQL of the demo cluster, and
// above those of Kubernetes.
const firstPort, lastPort = 12000, 25000

// FreePort returns a port for a program that the test starts, and can start again. An abstract
// Unix socket reserves it until the test ends, also from other packages' tests.
func FreePort(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	for range lastPort - firstPort {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort))
		socket, err := config.Listen(t.Context(), "unix", "@coder-k8s-test-port-"+port)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = socket.Close() })
		if listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("all ports are taken")
	return ""
}
