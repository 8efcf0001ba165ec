package replication

import (
	"fmt"
	"sync"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
	"k8s.io/utils/clock"
)

// applier takes over what another replica decided. It accepts nothing from a term
// below the one that it has promised.
type applier struct {
	logs    map[string]LogConfig
	board   *partition.Board
	clock   clock.PassiveClock
	metrics *Metrics

	mu       sync.Mutex
	promised uint64
}

// promise refuses all terms below one from here on. It gives what was promised
// before, and refuses where that is more.
func (a *applier) promise(term uint64) (before uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before = a.promised
	a.promised = max(a.promised, term)
	return before, term >= before
}

// standings tells where the logs stand.
func (a *applier) standings() standings {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := standings{}
	for resource, config := range a.logs {
		all[resource] = standing{Head: config.Log.Head(), Initialized: config.Log.Initialized()}
	}
	return all
}

// intake takes one stream over.
type intake struct {
	*applier
	term uint64
	// state collects a snapshot until it is complete.
	state map[string][]*objectlog.Entry
}

func (a *applier) intake(term uint64) *intake {
	return &intake{applier: a, term: term, state: map[string][]*objectlog.Entry{}}
}

// take applies a frame. It gives the head of a log that moved.
func (in *intake) take(message *frame) (head uint64, moved bool, err error) {
	switch message.Kind {
	case frameState:
		return in.takeState(message)
	case frameChanges:
		return in.takeChanges(message)
	case frameBoard:
		return 0, false, in.decide(func() error {
			in.board.Replace(message.Board)
			return nil
		})
	}
	return 0, false, nil
}

func (in *intake) takeState(message *frame) (uint64, bool, error) {
	config, ok := in.logs[message.Resource]
	if !ok {
		return 0, false, nil
	}
	for _, encoded := range message.Items {
		entry, err := encoded.entry(config.NewObject)
		if err != nil {
			return 0, false, err
		}
		in.state[message.Resource] = append(in.state[message.Resource], entry)
	}
	if !message.Done {
		return 0, false, nil
	}
	entries := in.state[message.Resource]
	delete(in.state, message.Resource)
	err := in.decide(func() error { return config.Log.Reset(entries, message.Head) })
	if err == nil {
		in.metrics.reset(message.Resource)
	}
	return message.Head, err == nil, err
}

func (in *intake) takeChanges(message *frame) (uint64, bool, error) {
	config, ok := in.logs[message.Resource]
	if !ok || len(message.Items) == 0 {
		return 0, false, nil
	}
	changes := make([]objectlog.Change, len(message.Items))
	for i, encoded := range message.Items {
		var err error
		if changes[i], err = encoded.change(config.NewObject); err != nil {
			return 0, false, err
		}
	}
	last := changes[len(changes)-1]
	err := in.decide(func() error {
		if head := config.Log.Head(); head != message.Previous {
			return fmt.Errorf("changes of %s follow on revision %d, the log is at %d", message.Resource, message.Previous, head)
		}
		return config.Log.Append(changes...)
	})
	if err == nil {
		in.metrics.applied(message.Resource, seconds(in.clock.Now(), last.Time))
	}
	return last.Revision, err == nil, err
}

// decide runs f unless a newer term was promised meanwhile.
func (in *intake) decide(f func() error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.term < in.promised {
		return fmt.Errorf("the writer of term %d was followed by that of term %d", in.term, in.promised)
	}
	return f()
}
