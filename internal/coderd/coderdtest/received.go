package coderdtest

import (
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// Received is one received request.
type Received struct {
	Method, Path string
	Header       http.Header
	// ID is the id that the server assigned and returned in its response.
	ID string
}

// maxReceived is the number of requests that are kept.
const maxReceived = 1000

// receive records a request and returns its id.
func (s *Server) receive(r *http.Request) string {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	id := uuid.NewString()
	s.received = append(s.received, Received{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), ID: id})
	s.received = s.received[max(0, len(s.received)-maxReceived):]
	return id
}

// Received returns the last requests in the order of their arrival.
func (s *Server) Received() []Received {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	return slices.Clone(s.received)
}
