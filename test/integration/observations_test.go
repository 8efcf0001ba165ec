package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// happening is a change of one object in a watch.
type happening struct {
	revision uint64
	kind     watch.EventType
	name     string
	labels   labels.Set
	content  uint64
}

func (h happening) String() string { return fmt.Sprintf("%d %s %s", h.revision, h.kind, h.name) }

// session contains the events of one watch: all changes after a revision, up to
// another one.
type session struct {
	watcher, replica string
	selector         labels.Selector
	from             uint64
	told             []happening
}

func (s session) String() string { return s.watcher + " at " + s.replica }

// listed is what a list returned: the revisions of the objects by name.
type listed struct {
	replica  string
	revision uint64
	objects  map[string]uint64
}

// observations collects the events of all watchers and the responses to writers. At
// the end one log must explain all of them.
type observations struct {
	mu       sync.Mutex
	sessions []session
	// answers are the objects in the responses to writers.
	answers []happening
	lists   []listed
	faults  []string
	// cut counts by replica the watches that it ended while it was running.
	cut map[string]int
}

func (c *observations) add(s session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = append(c.sessions, s)
}

func (c *observations) answered(object *unstructured.Unstructured) {
	h := happeningOf(watch.Modified, object)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, h)
}

func (c *observations) list(replica string, list *unstructured.UnstructuredList) {
	l := listed{replica, revisionOf(list.GetResourceVersion()), map[string]uint64{}}
	for _, object := range list.Items {
		l.objects[object.GetName()] = revisionOf(object.GetResourceVersion())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists = append(c.lists, l)
}

// fault records a violation.
func (c *observations) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (c *observations) cutOff(s session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == nil {
		c.cut = map[string]int{}
	}
	c.cut[s.replica]++
}

// excused fails the test if a replica ended more watches than there were slow
// clients. The library ends watches of slow clients, which occur on a busy machine.
func (c *observations) excused(t *testing.T, all replicas) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range all {
		slow := strings.Count(r.logs.String(), "watcher close due to unresponsiveness")
		t.Logf("%s ended %d watches, %d clients read too slowly", r.name, c.cut[r.name], slow)
		if c.cut[r.name] > slow {
			t.Errorf("%s ended watches though it lived", r.name)
		}
	}
}

func happeningOf(kind watch.EventType, object *unstructured.Unstructured) happening {
	content, err := json.Marshal(object.Object)
	if err != nil {
		content = []byte(err.Error())
	}
	sum := fnv.New64a()
	_, _ = sum.Write(content)
	return happening{revisionOf(object.GetResourceVersion()), kind, object.GetName(), object.GetLabels(), sum.Sum64()}
}

func revisionOf(text string) uint64 {
	revision, _ := strconv.ParseUint(text, 10, 64)
	return revision
}

// check fails the test if no log explains all observations after a revision, at
// which the objects of first existed.
func (c *observations) check(t *testing.T, first map[string]labels.Set, from uint64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.log(from)
	c.plausible(log, first)
	for _, s := range c.sessions {
		c.explained(s, expected(log, first, s.selector))
	}
	c.snapshots(log, first)
	byRevision := map[uint64]happening{}
	for _, h := range log {
		byRevision[h.revision] = h
	}
	for _, answer := range c.answers {
		if h, ok := byRevision[answer.revision]; answer.revision > from && (!ok || h.name != answer.name || h.content != answer.content) {
			c.faults = append(c.faults, fmt.Sprintf("a writer was answered with revision %s; a watch told: %v", answer, h))
		}
	}
	events := 0
	for _, s := range c.sessions {
		events += len(s.told)
	}
	t.Logf("%d changes, told in %d watches as %d events; %d answers to writers, %d lists", len(log), len(c.sessions), events, len(c.answers), len(c.lists))
	for _, fault := range c.faults[:min(len(c.faults), 30)] {
		t.Error(fault)
	}
	if len(c.faults) > 30 {
		t.Errorf("and %d more faults", len(c.faults)-30)
	}
}

// log merges the events of the watchers without a selector, in order. The same
// revision must be the same change for all of them.
func (c *observations) log(from uint64) []happening {
	all := map[uint64]happening{}
	for _, s := range c.sessions {
		if !s.selector.Empty() {
			continue
		}
		for _, h := range s.told {
			if known, ok := all[h.revision]; ok && (known.kind != h.kind || known.name != h.name || known.content != h.content) {
				c.faults = append(c.faults, fmt.Sprintf("%s was told %s, which is another change than %s, or has other content", s, h, known))
			}
			if h.revision > from {
				all[h.revision] = h
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b happening) int { return cmp.Compare(a.revision, b.revision) })
}

// plausible checks that an object is added before it changes, and does not change
// after its deletion.
func (c *observations) plausible(log []happening, first map[string]labels.Set) {
	there := map[string]bool{}
	for name := range first {
		there[name] = true
	}
	for _, h := range log {
		if there[h.name] == (h.kind == watch.Added) {
			c.faults = append(c.faults, fmt.Sprintf("%s: before that it was there: %v", h, there[h.name]))
		}
		there[h.name] = h.kind != watch.Deleted
	}
}

// snapshots checks that each list shows exactly the objects of its revision.
func (c *observations) snapshots(log []happening, first map[string]labels.Set) {
	slices.SortFunc(c.lists, func(a, b listed) int { return cmp.Compare(a.revision, b.revision) })
	// Revision 0 means any revision before the start of the log.
	there := map[string]uint64{}
	for name := range first {
		there[name] = 0
	}
	for _, l := range c.lists {
		for len(log) > 0 && log[0].revision <= l.revision {
			if there[log[0].name] = log[0].revision; log[0].kind == watch.Deleted {
				delete(there, log[0].name)
			}
			log = log[1:]
		}
		same := maps.EqualFunc(there, l.objects, func(want, got uint64) bool { return want == got || want == 0 })
		if !same {
			c.faults = append(c.faults, fmt.Sprintf("a list at %s with revision %d shows\n%v\nbut the watches showed\n%v", l.replica, l.revision, l.objects, there))
		}
	}
}

// expected returns the events of a log that a watch with a selector must deliver.
func expected(log []happening, first map[string]labels.Set, selector labels.Selector) []happening {
	selected := map[string]bool{}
	for name, set := range first {
		selected[name] = selector.Matches(set)
	}
	var out []happening
	for _, h := range log {
		before, now := selected[h.name], h.kind != watch.Deleted && selector.Matches(h.labels)
		selected[h.name] = now
		switch {
		case before && now:
			h.kind = watch.Modified
		case now:
			h.kind = watch.Added
		case before:
			h.kind = watch.Deleted
		default:
			continue
		}
		out = append(out, h)
	}
	return out
}

// explained checks one watch: its revisions increase, and between its start and its
// end it delivered exactly the changes of the log.
func (c *observations) explained(s session, log []happening) {
	last := s.from
	for _, h := range s.told {
		if h.revision <= last {
			c.faults = append(c.faults, fmt.Sprintf("%s, begun at %d, was told %s after %d", s, s.from, h, last))
		}
		last = h.revision
	}
	var want []string
	for _, h := range log {
		if h.revision > s.from && h.revision <= last {
			want = append(want, h.String())
		}
	}
	var got []string
	for _, h := range s.told {
		got = append(got, h.String())
	}
	if !slices.Equal(got, want) {
		c.faults = append(c.faults, fmt.Sprintf("%s, begun at %d, was told\n%v\nbut this happened:\n%v", s, s.from, got, want))
	}
}
