package callers

import "sync"

// Quota counts the running operations of each user.
type Quota struct {
	most int

	mu sync.Mutex
	// byUser contains only users with running operations.
	byUser map[string]int
}

// NewQuota returns a Quota of most operations for each user; 0 means no limit.
func NewQuota(most int) *Quota { return &Quota{most: most, byUser: map[string]int{}} }

// Most returns the limit for one user; 0 means no limit.
func (q *Quota) Most() int { return q.most }

// Begin counts an operation of the user until end is called; only the first call of end has
// an effect. ok is false if the user has reached the limit.
func (q *Quota) Begin(user string) (end func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.most > 0 && q.byUser[user] >= q.most {
		return nil, false
	}
	q.byUser[user]++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.byUser[user]--; q.byUser[user] == 0 {
			delete(q.byUser, user)
		}
	}), true
}

// Of returns the number of running operations of a user.
func (q *Quota) Of(user string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byUser[user]
}
