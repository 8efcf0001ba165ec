package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	defaultEvents = 50
	maxEvents     = 1000
	// maxEventsBytes limits the size of the answer.
	maxEventsBytes = 64 << 10
)

func addGetEvents(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_events", Title: "Events",
		Description: "Shows events, newest first, of the object with this name and kind.",
		Toolset:     toolset.Observation, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{{Verb: "list", Resource: "events"}},
	}, getEvents)
}

type getEventsInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Type      string `json:"type,omitempty" enum:"Normal,Warning"`
	Limit     int    `json:"limit,omitempty" default:"50" maximum:"1000"`
	Cursor    string `json:"cursor,omitempty"`
	// Continue is the name of the cursor argument in the previous implementation of this
	// server.
	Continue string `json:"continue,omitempty" deprecated:"true"`
}

type getEventsOutput struct {
	Items      []event `json:"items"`
	Truncated  bool    `json:"truncated"`
	NextCursor string  `json:"nextCursor,omitempty"`
	// Continue equals NextCursor, for clients of the previous implementation.
	Continue string `json:"continue,omitempty"`
	Note     string `json:"note,omitempty"`
}

// event is an event about the object of that kind and name.
type event struct {
	Type           string `json:"type"`
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	Count          int32  `json:"count"`
	LastTimestamp  string `json:"lastTimestamp,omitempty"`
	FirstTimestamp string `json:"firstTimestamp,omitempty"`
	Kind           string `json:"kind,omitempty"`
	Name           string `json:"name,omitempty"`
	Source         string `json:"source,omitempty"`
}

func getEvents(ctx context.Context, call *toolset.Call, in getEventsInput) (getEventsOutput, error) {
	if err := toolset.RequireNamespace(in.Namespace); err != nil {
		return getEventsOutput{}, err
	}
	in.Cursor = cmp.Or(in.Cursor, in.Continue)
	page, err := toolset.NewPageWithin(in.Limit, in.Cursor, defaultEvents, maxEvents)
	if err != nil {
		return getEventsOutput{}, err
	}
	options := page.Options(in.Namespace)
	in.filter(options)
	read, next, failed := toolset.ReadEvents(ctx, call.Kube, *options)
	if failed != nil {
		return getEventsOutput{}, failed
	}
	slices.SortFunc(read, podproblem.CompareEvents)
	shown, cursor := toolset.Cut(page, read, next)
	if fitting := fittingEvents(shown); fitting < len(shown) {
		if page, err = toolset.NewPageWithin(fitting, in.Cursor, defaultEvents, maxEvents); err != nil {
			return getEventsOutput{}, err
		}
		shown, cursor = toolset.Cut(page, read, next)
	}
	out := getEventsOutput{Items: make([]event, 0, len(shown)), Truncated: cursor != "", NextCursor: cursor, Continue: cursor}
	for i := range shown {
		out.Items = append(out.Items, describeEvent(&shown[i]))
	}
	if next != "" {
		out.Note = fmt.Sprintf("%d events were read, in the order of their names, so newer ones may be among the rest: give name, kind or type, or go on with continue", len(read))
	}
	return out, nil
}

// filter sets the field selector, so that the API server filters. It capitalizes the kind,
// because clients often write it in lower case.
func (in getEventsInput) filter(options *client.ListOptions) {
	selected := fields.Set{}
	if in.Name != "" {
		selected["involvedObject.name"] = in.Name
	}
	if in.Kind != "" {
		selected["involvedObject.kind"] = strings.ToUpper(in.Kind[:1]) + in.Kind[1:]
	}
	if in.Type != "" {
		selected["type"] = in.Type
	}
	if len(selected) > 0 {
		options.FieldSelector = fields.SelectorFromSet(selected)
	}
}

// firstSeen returns the time of the first occurrence. Events of the events.k8s.io API set
// EventTime instead of FirstTimestamp.
func firstSeen(e *corev1.Event) time.Time {
	switch {
	case !e.FirstTimestamp.IsZero():
		return e.FirstTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

// fittingEvents returns how many of the events fit into an answer, at least one.
func fittingEvents(events []corev1.Event) int {
	// frame is the approximate size of an event's JSON object without its texts.
	const frame = 250
	size := 0
	for i := range events {
		e := &events[i]
		size += frame + min(len(e.Message), maxExcerpt) + len(e.InvolvedObject.Name) + len(e.Reason)
		if size > maxEventsBytes {
			return max(i, 1)
		}
	}
	return len(events)
}

func describeEvent(e *corev1.Event) event {
	return event{
		Type: e.Type, Reason: excerpt(e.Reason), Message: excerpt(e.Message), Count: podproblem.EventCount(e),
		LastTimestamp: timestamp(podproblem.EventTime(e)), FirstTimestamp: timestamp(firstSeen(e)),
		Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name,
		Source: cmp.Or(e.Source.Component, e.ReportingController),
	}
}
