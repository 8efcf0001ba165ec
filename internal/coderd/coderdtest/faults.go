package coderdtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// Fault makes requests fail.
type Fault struct {
	// Method and PathPrefix select the requests. Empty selects all.
	Method, PathPrefix string
	// Status is the status of the response, which has a body as Coder sends it. 0 means 500, except
	// for a fault that only delays and for a hostile response.
	Status int
	// Message is the message in the body. Empty means a default message.
	Message string
	// HTML sends an HTML page instead, as a proxy in front of Coder does.
	HTML bool
	// RetryAfter is the value of the Retry-After header.
	RetryAfter time.Duration
	// Hostile sends a hostile response, with Status or 200.
	Hostile Hostile
	// DropConnection closes the connection without a response.
	DropConnection bool
	// Delay delays the request. Block blocks it until the channel is closed.
	Delay time.Duration
	Block <-chan struct{}
	// Processed handles the request first, so that only the response is lost.
	Processed bool
	// Times is the number of requests that fail. 0 means all, until the fault is removed.
	Times int
}

// Fail makes requests fail from now on, until the returned function is called. If several faults
// match a request, the first one applies.
func (s *Server) Fail(f Fault) (remove func()) {
	active := &f
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	s.faults = append(s.faults, active)
	return func() {
		s.trafficMu.Lock()
		defer s.trafficMu.Unlock()
		s.forget(active)
	}
}

// ClearFaults removes all faults.
func (s *Server) ClearFaults() {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	s.faults = nil
}

func (s *Server) forget(f *Fault) {
	s.faults = slices.DeleteFunc(s.faults, func(other *Fault) bool { return other == f })
}

func (s *Server) faultFor(r *http.Request) *Fault {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	for _, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || !strings.HasPrefix(r.URL.Path, f.PathPrefix) {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.forget(f)
			}
		}
		return f
	}
	return nil
}

// late delays a request by the latency of the server. It returns false if the request was
// cancelled.
func (s *Server) late(r *http.Request) bool {
	s.trafficMu.Lock()
	latency := s.latency
	s.trafficMu.Unlock()
	return latency == 0 || s.wait(&Fault{Delay: latency}, r)
}

// wait delays a request. It returns false if the client disconnected or the server has stopped.
func (s *Server) wait(f *Fault, r *http.Request) bool {
	var delay <-chan time.Time
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		delay = timer.C
	}
	if delay == nil && f.Block == nil {
		return true
	}
	select {
	case <-delay:
	case <-f.Block:
	case <-r.Context().Done():
		return false
	case <-s.stopped:
		return false
	}
	return true
}

// answer sends the failed response.
func (f *Fault) answer(w http.ResponseWriter) {
	if f.DropConnection {
		panic(http.ErrAbortHandler)
	}
	status := cmp.Or(f.Status, http.StatusInternalServerError)
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	if f.HTML {
		w.Header().Del(codersdk.BuildVersionHeader)
		w.Header().Del("X-Coder-Request-Id")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<html><body>%d %s</body></html>", status, http.StatusText(status))
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(codersdk.Response{Message: cmp.Or(f.Message, "A fault of the test.")})
}

// onlyDelays reports whether the request is handled normally after the delay.
func (f *Fault) onlyDelays() bool {
	return f.Status == 0 && !f.HTML && f.Hostile == "" && !f.DropConnection && !f.Processed && (f.Delay > 0 || f.Block != nil)
}

func (s *Server) count(class string) {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	s.requests[class]++
}

// Requests returns the number of requests since the start or ResetRequests by their class, for
// example "GET /api/v2/templates/{template}". Requests that failed because of a fault are included.
func (s *Server) Requests() map[string]int {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	return maps.Clone(s.requests)
}

// evaluation is the class of a POST that changes nothing.
const evaluation = "POST /api/v2/templateversions/{version}/dynamic-parameters/evaluate"

// Writes returns the number of requests with a method other than GET, without evaluations.
func (s *Server) Writes() int {
	n := 0
	for class, count := range s.Requests() {
		if !strings.HasPrefix(class, http.MethodGet+" ") && class != evaluation {
			n += count
		}
	}
	return n
}

// ResetRequests resets the counts.
func (s *Server) ResetRequests() {
	s.trafficMu.Lock()
	defer s.trafficMu.Unlock()
	clear(s.requests)
}

// Asked returns the number of requests since the last call, and resets the counts.
func (s *Server) Asked() int {
	n := 0
	for _, count := range s.Requests() {
		n += count
	}
	s.ResetRequests()
	return n
}

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
