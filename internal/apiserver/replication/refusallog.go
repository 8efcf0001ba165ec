package replication

import (
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// refusalPause is how long nothing more is said of connections that are refused. A
// replica that just started is refused dozens of times until its Lease was seen.
const refusalPause = time.Second

// refusalLog takes what the server says of connections that did not come about.
type refusalLog struct {
	logr.Logger
	clock clock.PassiveClock

	mu     sync.Mutex
	last   time.Time
	unsaid int
}

// Write logs one line, unless one was logged a moment ago.
func (l *refusalLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock.Now(); l.last.IsZero() || now.Sub(l.last) >= refusalPause {
		l.Info("Refusing a connection", "reason", strings.TrimSpace(string(line)), "moreBefore", l.unsaid)
		l.last, l.unsaid = now, 0
		return len(line), nil
	}
	l.unsaid++
	return len(line), nil
}
