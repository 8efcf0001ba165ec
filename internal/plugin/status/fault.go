package status

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// mostAlone is the maximum number of different messages with the same reason that are shown
	// separately.
	mostAlone = 3
	// mostNamed is the maximum number of objects in the title of a fault.
	mostNamed = 3
)

// fault is a problem of one or more objects.
type fault []Problem

// faults groups the problems of objects of one kind by reason and message. If a reason has many
// messages, it groups by the reason only. The order is the order of the first problem in each
// group.
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

// title returns the name of the object, or the number of objects with the first names.
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

// text returns the message. If the messages differ, it returns the first one.
func (f fault) text() string {
	if slices.ContainsFunc(f, func(p Problem) bool { return p.What != f[0].What }) {
		return f[0].What + " (the first; -o json shows each)"
	}
	return f[0].What
}

// since returns the earliest time of the problem among the objects.
func (f fault) since() *time.Time {
	var first *time.Time
	for _, p := range f {
		if p.Since != nil && (first == nil || p.Since.Before(*first)) {
			first = p.Since
		}
	}
	return first
}
