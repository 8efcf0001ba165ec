package coderdtest

import (
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// Received is one request as it came.
type Received struct {
	Method, Path string
	Header       http.Header
	// ID is the one that the server gave it, and told in its answer.
	ID string
}

// maxReceived is how many requests are remembered.
const maxReceived = 1000

// receive remembers a request and gives it an id.
func (s *Server) receive(r *http.Request) string {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	id := uuid.NewString()
	s.received = append(s.received, Received{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), ID: id})
	s.received = s.received[max(0, len(s.received)-maxReceived):]
	return id
}

// Received are the last requests, in their order.
func (s *Server) Received() []Received {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	return slices.Clone(s.received)
}
