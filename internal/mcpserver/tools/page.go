package tools

import (
	"encoding/base64"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	defaultLimit = 50
	maxLimit     = 200
)

// page is the part of a list that a caller asked for.
type page struct {
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

func newPage(limit int, cursor string) (page, error) {
	p := page{limit: limit}
	if p.limit <= 0 {
		p.limit = defaultLimit
	}
	p.limit = min(p.limit, maxLimit)
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p.position)
	}
	if err != nil || p.position.Offset < 0 {
		return page{}, usageError("cursor is not one that this tool gave: leave it out to begin at the start")
	}
	return p, nil
}

func (p page) options(namespace string) *client.ListOptions {
	o := &client.ListOptions{Namespace: namespace, Continue: p.position.Continue}
	if p.position.Offset == 0 {
		o.Limit = int64(p.limit)
	}
	return o
}

// cut takes the page out of what the API server answered and says where the next
// one begins; the cursor is empty at the end.
func cut[T any](p page, items []T, next string) (shown []T, cursor string) {
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
