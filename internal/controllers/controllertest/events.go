package controllertest

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// Events records Events as "type reason: note". It implements events.EventRecorder.
type Events struct {
	mu  sync.Mutex
	all []string
}

// Eventf implements events.EventRecorder.
func (e *Events) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, eventType+" "+reason+": "+fmt.Sprintf(note, args...))
}

// All returns all Events.
func (e *Events) All() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.all...)
}

// Count returns the number of Events that begin with a text.
func (e *Events) Count(prefix string) int {
	n := 0
	for _, event := range e.All() {
		if strings.HasPrefix(event, prefix) {
			n++
		}
	}
	return n
}
