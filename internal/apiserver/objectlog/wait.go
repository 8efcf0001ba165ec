package objectlog

import "context"

// Changed gives a channel that is closed at the next change. Who asks for it
// before reading misses nothing.
func (l *Log) Changed() <-chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func (l *Log) wakeLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Wait returns when the log has reached a revision.
func (l *Log) Wait(ctx context.Context, revision uint64) error {
	return l.await(ctx, func() bool { return l.Head() >= revision })
}

// WaitInitialized returns when the log has been filled.
func (l *Log) WaitInitialized(ctx context.Context) error {
	return l.await(ctx, l.Initialized)
}

func (l *Log) await(ctx context.Context, done func() bool) error {
	if done() {
		return nil
	}
	for {
		changed := l.Changed()
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
