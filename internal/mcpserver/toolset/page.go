package toolset

import (
	"context"
	"encoding/base64"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	defaultLimit = 50
	maxLimit     = 200
)

// Page is the part of a list that a call requests.
type Page struct {
	limit    int
	position position
}

// position is the start of a page: Offset items after the API server's continue token. The
// offset is for servers that ignore the limit and return the whole list.
type position struct {
	Continue string `json:"c,omitempty"`
	Offset   int    `json:"o,omitempty"`
}

// NewPage returns the page for the arguments limit and cursor. A limit that is not positive
// means 50; the maximum is 200. It returns a UsageError for an invalid cursor.
func NewPage(limit int, cursor string) (Page, error) {
	return NewPageWithin(limit, cursor, defaultLimit, maxLimit)
}

// NewPageWithin is NewPage with another default and maximum of the limit.
func NewPageWithin(limit int, cursor string, standard, most int) (Page, error) {
	p := Page{limit: limit}
	if p.limit <= 0 {
		p.limit = standard
	}
	p.limit = min(p.limit, most)
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p.position)
	}
	if err != nil || p.position.Offset < 0 {
		return Page{}, UsageError("cursor was not returned by this tool: omit it to begin at the start")
	}
	return p, nil
}

// Options returns the list options that request the page.
func (p Page) Options(namespace string) *client.ListOptions {
	return &client.ListOptions{Namespace: namespace, Continue: p.position.Continue, Limit: int64(p.limit)}
}

// Cut returns the items of the page out of the API server's response, and the cursor of the
// next page, which is "" at the end of the list. next is the API server's continue token.
func Cut[T any](p Page, items []T, next string) (shown []T, cursor string) {
	start := min(p.position.Offset, len(items))
	end := min(start+p.limit, len(items))
	switch {
	case end < len(items):
		cursor = position{Continue: p.position.Continue, Offset: end}.String()
	case next != "":
		cursor = position{Continue: next}.String()
	}
	return items[start:end], cursor
}

// String returns the cursor, which is opaque to clients.
func (p position) String() string {
	// A struct of a string and a number can always be encoded.
	raw, _ := json.Marshal(p)
	return base64.RawURLEncoding.EncodeToString(raw)
}

const (
	// EventsPerPage is the number of Events in one request.
	EventsPerPage = 500
	// MaxEventPages is the maximum number of pages that are read to find the newest Events.
	MaxEventPages = 4
)

// ReadEvents reads the Events that match the options, starting at their continue token; it
// ignores their limit. next is the continue token for the rest, or "" if there is none. If
// a page fails, the Events of earlier pages are returned too.
func ReadEvents(ctx context.Context, kube client.Reader, options client.ListOptions) (read []corev1.Event, next string, failed *CallError) {
	options.Limit = EventsPerPage
	for range MaxEventPages {
		page := &corev1.EventList{}
		if err := kube.List(ctx, page, &options); err != nil {
			return read, "", &CallError{Verb: "list", Resource: "events", Namespace: options.Namespace, Err: err}
		}
		read = append(read, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	return read, options.Continue, nil
}
