package status

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// mostAlone is how many objects with the same reason and different messages are
	// shown one by one.
	mostAlone = 3
	// mostNamed is how many objects of a fault are named.
	mostNamed = 3
)

// fault is a problem of one or more objects.
type fault []Problem

// faults puts the problems of objects of one kind together that have the same reason
// and message, and those that have only the same reason if they are many. The order
// is that of the first problem of each.
func faults(all []Problem) []fault {
	type cause struct{ kind, reason string }
	different := map[cause][]string{}
	for _, p := range all {
		if c := (cause{p.Kind, p.Reason}); !slices.Contains(different[c], p.What) {
			different[c] = append(different[c], p.What)
		}
	}
	var found []fault
	at := map[string]int{}
	for _, p := range all {
		key := p.Kind + "\x00" + p.Reason
		if len(different[cause{p.Kind, p.Reason}]) <= mostAlone {
			key += "\x00" + p.What
		}
		i, known := at[key]
		if !known || p.Kind == "" {
			i = len(found)
			at[key], found = i, append(found, nil)
		}
		found[i] = append(found[i], p)
	}
	return found
}

// title names the object, or says how many there are and names the first.
func (f fault) title() string {
	if len(f) == 1 {
		return f[0].Object
	}
	names := make([]string, 0, mostNamed+1)
	for _, p := range f[:min(len(f), mostNamed)] {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	if more := len(f) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	kind := f[0].Kind + "s"
	if stem, ok := strings.CutSuffix(f[0].Kind, "y"); ok {
		kind = stem + "ies"
	}
	return fmt.Sprintf("%d %s (%s)", len(f), kind, strings.Join(names, ", "))
}

// text is the message. If the objects have different ones, it is that of the first.
func (f fault) text() string {
	if slices.ContainsFunc(f, func(p Problem) bool { return p.What != f[0].What }) {
		return f[0].What + " (the first; -o json shows each)"
	}
	return f[0].What
}

// since is when the first of the objects got the problem.
func (f fault) since() *time.Time {
	var first *time.Time
	for _, p := range f {
		if p.Since != nil && (first == nil || p.Since.Before(*first)) {
			first = p.Since
		}
	}
	return first
}
