package callers

import "sync"

// Quota counts running operations, by user, and limits them.
type Quota struct {
	perUser, most int

	mu sync.Mutex
	// byUser contains only users with running operations.
	byUser map[string]int
	total  int
}

// NewQuota returns a Quota of perUser operations for each user and most operations for all
// users together; 0 means no limit.
func NewQuota(perUser, most int) *Quota {
	return &Quota{perUser: perUser, most: most, byUser: map[string]int{}}
}

// PerUser returns the limit for one user; 0 means no limit.
func (q *Quota) PerUser() int { return q.perUser }

// Begin counts an operation of the user until end is called; only the first call of end has
// an effect. ok is false if a limit has been reached.
func (q *Quota) Begin(user string) (end func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.perUser > 0 && q.byUser[user] >= q.perUser || q.most > 0 && q.total >= q.most {
		return nil, false
	}
	q.byUser[user]++
	q.total++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.total--
		if q.byUser[user]--; q.byUser[user] == 0 {
			delete(q.byUser, user)
		}
	}), true
}

// Total returns the number of running operations of all users.
func (q *Quota) Total() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
