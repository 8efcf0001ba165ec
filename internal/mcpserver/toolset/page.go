package toolset

import (
	"encoding/base64"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	defaultLimit = 50
	maxLimit     = 200
)

// Page is the part of a list that a caller asked for.
type Page struct {
	limit    int
	position position
}

// position is where a page begins: Offset items after the place that the API
// server's own token names. The offset is for servers that answer with
// everything, whatever limit they are asked for.
type position struct {
	Continue string `json:"c,omitempty"`
	Offset   int    `json:"o,omitempty"`
}

// NewPage is the part that limit and cursor, two arguments of a call, stand for.
// A limit that is not positive means 50; the most is 200. A cursor that no tool
// gave is a UsageError.
func NewPage(limit int, cursor string) (Page, error) {
	return NewPageWithin(limit, cursor, defaultLimit, maxLimit)
}

// NewPageWithin is NewPage where the limit is something else than usual when it is
// not given, and at most.
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
		return Page{}, UsageError("cursor is not one that this tool gave: leave it out to begin at the start")
	}
	return p, nil
}

// Options ask the API server for the page.
func (p Page) Options(namespace string) *client.ListOptions {
	o := &client.ListOptions{Namespace: namespace, Continue: p.position.Continue}
	if p.position.Offset == 0 {
		o.Limit = int64(p.limit)
	}
	return o
}

// Cut takes the page out of what the API server answered and says where the next
// one begins; the cursor is empty at the end.
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

// String is the opaque form that callers get.
func (p position) String() string {
	raw, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}
