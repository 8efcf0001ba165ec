package integration

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// checkTimeout limits the check of one object's calls.
const checkTimeout = time.Minute

// verb is what a call does with one object.
type verb string

const (
	reads   verb = "read"
	creates verb = "create"
	labeled verb = "label"
	// changed is a change of something other than labels.
	changed verb = "change"
	deletes verb = "delete"
)

// call is the input of one request about one object.
type call struct {
	verb verb
	// key and value are those of the label that is set.
	key, value string
	replica    string
}

// outcome is the object in a response. It is not known if the request failed in a way
// that does not say whether the request was carried out.
type outcome struct {
	known, exists bool
	revision      uint64
	// labels are those that writers set.
	labels string
}

func (o outcome) String() string {
	switch {
	case !o.known:
		return "unknown"
	case !o.exists:
		return "not found"
	}
	return fmt.Sprintf("revision %d {%s}", o.revision, o.labels)
}

func found(object *unstructured.Unstructured) outcome {
	set := labels.Set{}
	for key, value := range object.GetLabels() {
		if strings.HasPrefix(key, "writer") {
			set[key] = value
		}
	}
	return outcome{known: true, exists: true, revision: revisionOf(object.GetResourceVersion()), labels: set.String()}
}

// register is the state of one object in the sequential specification. The operator may
// change anything but labels on its own, so revision is only the lowest possible one.
type register struct {
	exists, deleting, gone bool
	revision               uint64
	labels                 string
}

// step is the sequential specification: it reports whether a call may have this outcome
// in a state, and returns the next state.
func (s register) step(in call, out outcome) (bool, register) {
	switch {
	case out.known && !out.exists && in.verb == changed && s.deleting:
		// Coder has deleted the workspace already, and the object is still shown for a moment.
		return true, s
	case out.known && !out.exists:
		// Any call may find out that the object is gone, if somebody deleted it.
		if s.exists && !s.deleting {
			return false, s
		}
		return true, register{gone: s.gone || s.exists}
	case in.verb == creates && (s.exists || s.gone), !out.known && in.verb != creates && !s.exists:
		return !out.known, s
	case in.verb == creates:
		return true, register{exists: true, revision: out.revision, labels: out.labels}
	case in.verb == deletes:
		s.deleting = true
		return s.exists || !out.known, s
	case out.known && (!s.exists || out.revision < s.revision || in.verb == labeled && out.revision == s.revision):
		return false, s
	}
	s.revision = max(s.revision, out.revision)
	if in.verb == labeled {
		set, err := labels.ConvertSelectorToLabelsMap(s.labels)
		if err != nil {
			return false, s
		}
		s.labels = labels.Merge(set, labels.Set{in.key: in.value}).String()
	}
	return !out.known || out.labels == s.labels, s
}

// callLog records the calls of all clients by the names of the objects.
type callLog struct {
	mu     sync.Mutex
	began  time.Time
	byName map[string][]porcupine.Operation
}

func newCallLog() *callLog {
	return &callLog{began: time.Now(), byName: map[string][]porcupine.Operation{}}
}

// now is the time of calls, by the monotonic clock.
func (c *callLog) now() int64 { return int64(time.Since(c.began)) }

// add records a call that began at a time and has ended now. A call whose outcome is not
// known may still be carried out at any later time.
func (c *callLog) add(name string, in call, began int64, out outcome) {
	ended := c.now()
	if !out.known {
		ended = math.MaxInt64
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName[name] = append(c.byName[name], porcupine.Operation{Input: in, Call: began, Output: out, Return: ended})
}

// listed records a list as a read of each object that existed when the list began.
func (c *callLog) listed(replica string, names []string, began int64, objects map[string]*unstructured.Unstructured) {
	for _, name := range names {
		out := outcome{known: true}
		if object := objects[name]; object != nil {
			out = found(object)
		}
		c.add(name, call{verb: reads, replica: replica}, began, out)
	}
}

// linearizable fails the test if no order of the calls, which agrees with their real
// time, explains the outcomes.
func (c *callLog) linearizable(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	model := porcupine.Model{
		Init: func() any { return register{} },
		Step: func(state, in, out any) (bool, any) { return state.(register).step(in.(call), out.(outcome)) },
	}
	began, n, unknown := time.Now(), 0, 0
	for name, all := range c.byName {
		n += len(all)
		for _, o := range all {
			if !o.Output.(outcome).known {
				unknown++
			}
		}
		if result := porcupine.CheckOperationsTimeout(model, all, checkTimeout); result != porcupine.Ok {
			t.Errorf("the calls about %s are not linearizable (%s):\n%s", name, result, told(all))
		}
	}
	t.Logf("%d calls about %d objects, the outcome of %d is not known; checked in %.1f s", n, len(c.byName), unknown, time.Since(began).Seconds())
}

// told formats the calls in the order in which they began.
func told(all []porcupine.Operation) string {
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	lines := make([]string, len(all))
	for i, o := range all {
		in := o.Input.(call)
		lines[i] = fmt.Sprintf("%9.3f to %9.3f at %s: %s %s %s: %v",
			time.Duration(o.Call).Seconds(), time.Duration(o.Return).Seconds(), in.replica, in.verb, in.key, in.value, o.Output)
	}
	return strings.Join(lines, "\n")
}

// TestRegister checks the specification itself: it must refuse what a correct API never
// returns.
func TestRegister(t *testing.T) {
	seen := func(revision uint64, labels string) outcome {
		return outcome{known: true, exists: true, revision: revision, labels: labels}
	}
	absent, unknown := outcome{known: true}, outcome{}
	read, create, remove := call{verb: reads}, call{verb: creates}, call{verb: deletes}
	label := func(value string) call { return call{verb: labeled, key: "writer0", value: value} }
	type step struct {
		in  call
		out outcome
	}
	for name, c := range map[string]struct {
		steps []step
		want  bool
	}{
		"created, labeled, read":    {[]step{{create, seen(1, "")}, {label("a"), seen(2, "writer0=a")}, {read, seen(3, "writer0=a")}}, true},
		"an older read":             {[]step{{create, seen(5, "")}, {read, seen(4, "")}}, false},
		"a label that is lost":      {[]step{{create, seen(1, "")}, {label("a"), seen(2, "writer0=a")}, {read, seen(3, "")}}, false},
		"a write without revision":  {[]step{{create, seen(1, "")}, {label("a"), seen(1, "writer0=a")}}, false},
		"absent without a deletion": {[]step{{create, seen(1, "")}, {read, absent}}, false},
		"absent after a deletion":   {[]step{{create, seen(1, "")}, {remove, seen(2, "")}, {read, absent}}, true},
		"back after a deletion":     {[]step{{create, seen(1, "")}, {remove, seen(2, "")}, {read, absent}, {read, seen(3, "")}}, false},
		"created twice":             {[]step{{create, seen(1, "")}, {create, seen(2, "")}}, false},
		"created by an unknown":     {[]step{{read, absent}, {create, unknown}, {read, seen(3, "")}}, true},
		"labeled by an unknown":     {[]step{{create, seen(1, "")}, {label("a"), unknown}, {read, seen(3, "writer0=a")}}, true},
		"read before it exists":     {[]step{{read, seen(1, "")}}, false},
	} {
		state, got := register{}, true
		for _, s := range c.steps {
			ok := false
			ok, state = state.step(s.in, s.out)
			got = got && ok
		}
		if got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
