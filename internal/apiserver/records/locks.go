package records

import (
	"context"
	"sync"
)

// locks holds one lock for each key. A lock exists only while it is held or waited for.
type locks struct {
	mutex sync.Mutex
	held  map[string]*keyLock
}

type keyLock struct {
	// taken has capacity one. A successful send acquires the lock.
	taken chan struct{}
	// users is the number of goroutines that hold or wait for the lock.
	users int
}

func (l *locks) lock(ctx context.Context, key string) (func(), error) {
	lock := l.use(key)
	select {
	case lock.taken <- struct{}{}:
		return l.unlock(key, lock), nil
	case <-ctx.Done():
		l.leave(key, lock)
		return nil, ctx.Err()
	}
}

func (l *locks) tryLock(key string) (func(), bool) {
	lock := l.use(key)
	select {
	case lock.taken <- struct{}{}:
		return l.unlock(key, lock), true
	default:
		l.leave(key, lock)
		return nil, false
	}
}

func (l *locks) unlock(key string, lock *keyLock) func() {
	return sync.OnceFunc(func() {
		<-lock.taken
		l.leave(key, lock)
	})
}

func (l *locks) use(key string) *keyLock {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	lock, ok := l.held[key]
	if !ok {
		lock = &keyLock{taken: make(chan struct{}, 1)}
		l.held[key] = lock
	}
	lock.users++
	return lock
}

func (l *locks) leave(key string, lock *keyLock) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	lock.users--
	if lock.users == 0 {
		delete(l.held, key)
	}
}
