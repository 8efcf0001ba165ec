package protocol

import "sync"

// running is the requests that are being answered, over HTTP, and the work that
// they cause. In a session the work can outlive its request.
type running struct {
	work cancels

	mu       sync.Mutex
	refusing bool
	requests sync.WaitGroup
}

// begin adds a request, until its end is called. It is false once the server
// ends.
func (r *running) begin() (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing {
		return nil, false
	}
	r.requests.Add(1)
	return r.requests.Done, true
}

// refuse lets no further request begin.
func (r *running) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = true
}

// wait must come after refuse.
func (r *running) wait() { r.requests.Wait() }
