package coderdtest

import "testing"

// Option changes a Server.
type Option func(*Server)

// Server is a Coder for tests.
type Server struct {
	// URL is its address.
	URL string
}

// New starts a server that ends with the test.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return &Server{}
}
