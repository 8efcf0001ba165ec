package quota

import "sync"

// Quota counts what each user has under way.
type Quota struct {
	most int

	mu sync.Mutex
	// byUser has no user without any.
	byUser map[string]int
}

// New allows each user so much at once; 0 is no bound.
func New(most int) *Quota { return &Quota{most: most, byUser: map[string]int{}} }

// Most is how much one user may have under way; 0 is no bound.
func (q *Quota) Most() int { return q.most }

// Begin counts one more until its end is called; only the first call counts. It is
// false where the user has as much as one may have.
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

// Of is how much a user has under way.
func (q *Quota) Of(user string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byUser[user]
}
