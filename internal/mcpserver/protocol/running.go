package protocol

import "sync"

// running tracks the HTTP requests that are being answered and the work that they started.
// In a session, the work can outlive its request.
type running struct {
	work cancels

	mu       sync.Mutex
	refusing bool
	requests sync.WaitGroup
}

// begin adds a request until end is called. ok is false once the server shuts down.
func (r *running) begin() (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing {
		return nil, false
	}
	r.requests.Add(1)
	return r.requests.Done, true
}

// refuse rejects further requests.
func (r *running) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = true
}

// wait waits until all requests have ended. It must be called after refuse.
func (r *running) wait() { r.requests.Wait() }
