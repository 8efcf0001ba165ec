package coderd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
)

// The limits of one response. Anyone with permission to create a CoderControlPlane chooses the
// server, so every response is limited. The limits apply to the data after decompression.
// Config.Timeout limits the time.
const (
	// maxHeaderBytes limits the status line and the headers.
	maxHeaderBytes = 64 << 10
	// maxErrorBytes limits a response with an error status.
	maxErrorBytes = 256 << 10
	// maxBodyBytes limits a response that has no larger limit.
	maxBodyBytes = 4 << 20
	// maxListBytes limits a list that Coder returns without pages, or in pages of large items: a
	// template has about 2 KiB, a version includes its readme.
	maxListBytes = 16 << 20
	// maxLogBytes limits the log of one build.
	maxLogBytes = 16 << 20
	// maxPageBytes limits a page of workspaces. Only one workspace at a time is in memory, and it
	// is limited by maxWorkspaceBytes and maxWorkspaceValues.
	maxPageBytes = 64 << 20
	// maxWorkspaceBytes limits one workspace, which includes the scripts of its agents. Coder's
	// provisioner sends them in one message of at most 4 MiB, which is longer in JSON.
	maxWorkspaceBytes = 8 << 20
	// maxFileBytes limits an archive, which is never in memory as a whole: Coder's own limit plus
	// space for the headers of the entries.
	maxFileBytes = maxUnpackedBytes + 20<<20

	// maxDepth limits how deeply JSON is nested. A workspace has about ten levels.
	maxDepth = 64
	// maxItems limits the items of a list. An empty item has two bytes in JSON, but needs several
	// hundred bytes in memory.
	maxItems = 20_000
	// maxLogLines is like maxItems, for the lines of a log.
	maxLogLines = 100_000
	// maxValues limits the number of all values in a response, at any level.
	maxValues = 500_000
	// maxPageValues is like maxValues, for a page of workspaces and for a log.
	maxPageValues = 4_000_000
	// maxWorkspaceValues is like maxValues, for one workspace of a page.
	maxWorkspaceValues = 100_000
)

// The limits of concurrent responses of which more than smallBytes are in memory at once; others
// wait. Each server has its own limit, so that one server cannot block the others.
const (
	smallBytes      = 256 << 10
	maxLargeAtOnce  = 3
	maxLargePerHost = 1
)

// limits are the limits of one class of responses.
type limits struct {
	bytes int64
	// value and valuesOfOne limit the bytes and the values of one item of a list that is decoded
	// item by item. 0 means no limit.
	value       int64
	valuesOfOne int
	// items and values are limits for JSON. values is 0 for a response that is not JSON.
	items, values int
	// streamed reports that the response is not in memory as a whole.
	streamed bool
}

// workspacesEndpoint returns pages of workspaces.
const workspacesEndpoint = "/api/v2/workspaces"

func limitsOf(method, endpoint string, status int) limits {
	l := limits{bytes: maxBodyBytes, items: maxItems, values: maxValues}
	switch {
	case status >= http.StatusMultipleChoices:
		l.bytes = maxErrorBytes
	case method != http.MethodGet:
	case endpoint == "/api/v2/files/{}":
		return limits{bytes: maxFileBytes, streamed: true}
	case endpoint == workspacesEndpoint:
		return limits{
			bytes: maxPageBytes, value: maxWorkspaceBytes, valuesOfOne: maxWorkspaceValues,
			items: maxItems, values: maxPageValues, streamed: true,
		}
	case endpoint == "/api/v2/workspaces/{}", endpoint == "/api/v2/users/{}/workspace/{}":
		l.bytes = maxWorkspaceBytes
	case strings.HasSuffix(endpoint, "/logs"):
		l.bytes, l.items, l.values = maxLogBytes, maxLogLines, maxPageValues
	case longLists.Has(endpoint):
		l.bytes = maxListBytes
	}
	return l
}

// longLists are the endpoints that return a list whose length is not limited.
var longLists = sets.New("/api/v2/templates", "/api/v2/templates/{}/versions", "/api/v2/organizations",
	"/api/v2/organizations/{}/provisionerdaemons", "/api/v2/organizations/{}/provisionerjobs",
	"/api/v2/organizations/{}/provisionerkeys", "/api/v2/users/{}/keys/tokens",
	"/api/v2/users", "/api/v2/organizations/{}/members")

// LimitError reports that a response exceeds a limit. The rest of the response is not read. The
// error contains nothing of the response.
type LimitError struct {
	// Method and Endpoint are the values of the request, as in Call.
	Method, Endpoint string
	// Limit is the exceeded limit, for example "is larger than 4 MiB".
	Limit string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the response to %s %s %s", e.Method, e.Endpoint, e.Limit)
}

func size(n int64) string {
	if n%(1<<20) != 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// IsTooLarge reports whether a response of Coder exceeds one of the limits.
func IsTooLarge(err error) bool {
	_, ok := errors.AsType[*LimitError](err)
	return ok
}

// limitBody replaces the body of a response by one that returns a *LimitError if the response
// exceeds the limits.
func limitBody(req *http.Request, res *http.Response, endpoint string) {
	if res.Body == nil || res.StatusCode == http.StatusSwitchingProtocols {
		// A WebSocket has taken over the connection. It has its own limit: 32 KiB per message.
		return
	}
	l := limitsOf(req.Method, endpoint, res.StatusCode)
	res.Body = &limitedBody{
		body: res.Body, limits: l, declared: res.ContentLength, values: valueCounter{limits: l},
		host: req.URL.Host, ctx: req.Context(), // A body is read within the time of its request.
		exceeds: func(limit string) error { return &LimitError{Method: req.Method, Endpoint: endpoint, Limit: limit} },
	}
}

// limitedBody is the body of a response. Only Close is safe for concurrent use.
type limitedBody struct {
	body     io.ReadCloser
	limits   limits
	declared int64
	read     int64
	values   valueCounter
	host     string
	ctx      context.Context //nolint:containedctx // A body is read within the time of its request.
	exceeds  func(limit string) error
	err      error
	// release returns the slot among the large responses. It is nil while there is none.
	release atomic.Pointer[func()]
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.err == nil && b.declared > b.limits.bytes {
		b.err = b.exceeds("is larger than " + size(b.limits.bytes))
	}
	inMemory := b.read // All of the response is in memory, or the current item.
	if b.limits.streamed {
		inMemory = b.values.itemBytes
	}
	if b.err == nil && inMemory > smallBytes && b.release.Load() == nil {
		b.err = b.takePlace()
	}
	if b.err != nil {
		return 0, b.err
	}
	// One additional byte is read to distinguish a body that ends at the limit from a larger one.
	if most := b.limits.bytes - b.read + 1; int64(len(p)) > most {
		p = p[:most]
	}
	n, err := b.body.Read(p)
	b.read += int64(n)
	limit := b.values.count(p[:n])
	if b.read > b.limits.bytes {
		limit = "is larger than " + size(b.limits.bytes)
	}
	if limit != "" {
		b.err = b.exceeds(limit)
		return 0, b.err
	}
	b.err = err
	return n, err
}

func (b *limitedBody) takePlace() error {
	release, err := large.take(b.ctx, b.host)
	if err != nil {
		return err
	}
	// If the body is not closed, the slot is returned when the request's context ends.
	stop := context.AfterFunc(b.ctx, release)
	free := func() {
		stop()
		release()
	}
	b.release.Store(&free)
	return nil
}

// Close implements io.Closer. It is called after the content was decoded.
func (b *limitedBody) Close() error {
	if free := b.release.Swap(nil); free != nil {
		(*free)()
	}
	return b.body.Close()
}

// places are the slots for large responses.
type places struct {
	all chan struct{}

	mu    sync.Mutex
	hosts map[string]*hostPlaces
}

type hostPlaces struct {
	places chan struct{}
	users  int
}

// large is shared by all clients of the process.
var large = &places{all: make(chan struct{}, maxLargeAtOnce), hosts: map[string]*hostPlaces{}}

// take waits for a slot. The returned function may be called more than once.
func (p *places) take(ctx context.Context, host string) (release func(), err error) {
	p.mu.Lock()
	own := p.hosts[host]
	if own == nil {
		own = &hostPlaces{places: make(chan struct{}, maxLargePerHost)}
		p.hosts[host] = own
	}
	own.users++
	p.mu.Unlock()
	if err := acquire(ctx, own.places); err != nil {
		p.leave(host)
		return nil, err
	}
	if err := acquire(ctx, p.all); err != nil {
		<-own.places
		p.leave(host)
		return nil, err
	}
	return sync.OnceFunc(func() {
		<-p.all
		<-own.places
		p.leave(host)
	}), nil
}

func acquire(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave removes the slots of a server that are no longer used.
func (p *places) leave(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.hosts[host]; own != nil {
		if own.users--; own.users == 0 {
			delete(p.hosts, host)
		}
	}
}

// valueCounter counts the values in JSON while it is read. It does not validate the JSON; the
// decoder does.
type valueCounter struct {
	limits limits
	begun  bool
	// other reports that the body does not start with a list or an object, so that it is not JSON
	// that would be decoded.
	other     bool
	inString  bool
	escaped   bool
	depth     int
	inList    [maxDepth + 1]bool
	values    int
	items     int
	itemBytes int64
	// beforeItem is the number of values before the current item.
	beforeItem int
}

// itemDepth is the maximum depth of a list's items: [item], or {"items": [item]}.
const itemDepth = 2

// count returns the exceeded limit, or an empty string.
func (c *valueCounter) count(p []byte) (exceeded string) {
	if c.limits.values == 0 || c.other {
		return ""
	}
	for _, b := range p {
		c.itemBytes++
		switch {
		case c.escaped:
			c.escaped = false
		case c.inString:
			c.escaped, c.inString = b == '\\', b != '"'
		case !c.begun && b != '{' && b != '[':
			if b != ' ' && b != '\n' && b != '\r' && b != '\t' {
				c.other = true
				return ""
			}
		case b == '"':
			c.inString = true
		default:
			if exceeded = c.structure(b); exceeded != "" {
				return exceeded
			}
		}
		if c.limits.value > 0 && c.itemBytes > c.limits.value {
			return "has an item that is larger than " + size(c.limits.value)
		}
	}
	return ""
}

// structure handles a character outside of strings.
func (c *valueCounter) structure(b byte) (exceeded string) {
	switch b {
	case '{', '[':
		c.begun = true
		if c.depth++; c.depth > maxDepth {
			return fmt.Sprintf("is nested more than %d levels deep", maxDepth)
		}
		c.inList[c.depth] = b == '['
		c.values++
	case '}', ']':
		c.depth = max(0, c.depth-1)
	case ',':
		c.values++
		if c.depth <= itemDepth && c.inList[c.depth] {
			c.items++
		}
	default:
		return ""
	}
	if c.depth <= itemDepth {
		c.itemBytes, c.beforeItem = 0, c.values
	}
	switch {
	case c.limits.valuesOfOne > 0 && c.values-c.beforeItem > c.limits.valuesOfOne:
		return fmt.Sprintf("has an item with more than %d values", c.limits.valuesOfOne)
	case c.items >= c.limits.items:
		return fmt.Sprintf("has more than %d items", c.limits.items)
	case c.values > c.limits.values:
		return fmt.Sprintf("has more than %d values", c.limits.values)
	}
	return ""
}
