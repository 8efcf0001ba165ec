package toolset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// maxAnswerBytes limits the size of an answer as JSON. The largest expected answer is a log
// of 1 MiB, of which each character may take two bytes in JSON.
const maxAnswerBytes = 3 << 20

// handler runs a tool for a request. It replaces the SDK's generic handler, which decodes
// every answer again to validate it, and reports invalid arguments in terms of Go types.
func handler[In, Out any](env Env, schema *jsonschema.Resolved, unconfirmed bool, run func(context.Context, *Call, In) (Out, error)) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := call(ctx, env, req, schema, unconfirmed, run)
		if err == nil {
			setOutcome(ctx, OutcomeOK)
			return &mcp.CallToolResult{
				StructuredContent: answer,
				// Clients of revisions before 2025-06-18 read only this field.
				Content: []mcp.Content{&mcp.TextContent{Text: string(answer)}},
			}, nil
		}
		var ask *asking
		if errors.As(err, &ask) {
			setOutcome(ctx, OutcomeNeedsInput)
			return ask.result(), nil
		}
		var refused *jsonrpc.Error
		if errors.As(err, &refused) {
			setOutcome(ctx, OutcomeInvalid)
			return nil, refused
		}
		outcome, reported := explain(ctx, err)
		setOutcome(ctx, outcome)
		result := &mcp.CallToolResult{}
		result.SetError(bounded(reported))
		return result, nil
	}
}

// call runs the tool and returns the answer as JSON.
func call[In, Out any](ctx context.Context, env Env, req *mcp.CallToolRequest, schema *jsonschema.Resolved, unconfirmed bool, run func(context.Context, *Call, In) (Out, error)) (json.RawMessage, error) {
	var in In
	arguments, err := decode(req.Params.Arguments, schema, &in)
	if err != nil {
		return nil, err
	}
	c := &Call{Kube: env.Kube, time: env.Clock, dialog: newDialog(ctx, env.Confirmer, req, arguments), requireElicitation: env.RequireElicitation, unconfirmed: unconfirmed}
	c.progress = newProgress(req, c.clock())
	out, err := run(ctx, c, in)
	if err != nil {
		return nil, err
	}
	return encode(&out)
}

func encode(out any) (json.RawMessage, error) {
	fillNulls(out)
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	// Models read "<" more easily than its escape, and the answer is not embedded in HTML.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		return nil, fmt.Errorf("bug: encoding an answer: %w", err)
	}
	answer := bytes.TrimSpace(b.Bytes())
	if len(answer) > maxAnswerBytes {
		return nil, UsageError(fmt.Sprintf("the result has %d KiB, and at most %d KiB are sent; request less data", len(answer)>>10, maxAnswerBytes>>10))
	}
	return answer, nil
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// mayBeNull returns the path of a field that encoding/json can encode as null even after
// fillNulls: a pointer or an interface without omitempty. It returns "" if there is none.
func mayBeNull(t reflect.Type, above []reflect.Type) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Implements(marshaler) || slices.Contains(above, t) {
		return ""
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		kind := field.Type.Kind()
		if (kind == reflect.Pointer || kind == reflect.Interface) && !field.Anonymous && !strings.Contains(options, "omit") {
			return t.Name() + "." + field.Name
		}
		if path := mayBeNull(field.Type, append(above, t)); path != "" {
			return path
		}
	}
	return ""
}

// fillNulls replaces each nil slice and map in the value of out, at any depth, by an empty
// one, so that clients do not get null for a field whose schema says array or object.
func fillNulls(out any) { fill(reflect.ValueOf(out).Elem()) }

func fill(v reflect.Value) {
	if v.Type().Implements(marshaler) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				fill(field)
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		if isLeaf(v.Type().Elem()) {
			return
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		if isLeaf(v.Type().Elem()) {
			return
		}
		// Values of a map are not addressable: fill a copy and store it.
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			fill(value)
			v.SetMapIndex(key, value)
		}
	}
}

// isLeaf reports whether values of this type cannot contain nil slices or maps.
func isLeaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map, reflect.Interface:
		return false
	default:
		return true
	}
}

// Call is one call of a tool. Only Kube is required: without the other fields the client
// cannot be asked for confirmation and gets no progress notifications.
type Call struct {
	// Kube impersonates the caller. For a tool that only reads, it rejects writes.
	Kube *callers.Kube

	// dialog asks the client's user for confirmation. It is nil if the client does not
	// support that.
	dialog *dialog
	// requireElicitation rejects the argument confirm as a replacement for a dialog.
	requireElicitation bool
	// unconfirmed skips the confirmation.
	unconfirmed bool
	// progress sends progress notifications. It is nil if the client did not request any.
	progress *progress
	// time is the clock; nil means the real one.
	time clock.WithTicker
}

func (c *Call) clock() clock.WithTicker {
	if c.time == nil {
		return clock.RealClock{}
	}
	return c.time
}

// Now returns the current time.
func (c *Call) Now() time.Time { return c.clock().Now() }

// progressInterval is the minimum time between two notifications of a call.
const progressInterval = 500 * time.Millisecond

// Progress sends a progress notification if the client requested any. It sends at most one
// per progressInterval and drops the others.
func (c *Call) Progress(ctx context.Context, message string) {
	if c.progress != nil {
		c.progress.tell(ctx, message)
	}
}

// progress sends the notifications of one call.
type progress struct {
	token  any
	clock  clock.PassiveClock
	notify func(context.Context, *mcp.ProgressNotificationParams) error

	mu   sync.Mutex
	sent int
	last time.Time
}

// newProgress returns nil if the client did not request progress notifications.
func newProgress(req *mcp.CallToolRequest, clk clock.PassiveClock) *progress {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return nil
	}
	return &progress{token: token, clock: clk, notify: req.Session.NotifyProgress}
}

// tell sends a notification. It returns false if it dropped the message because of
// progressInterval.
func (p *progress) tell(ctx context.Context, message string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if p.sent > 0 && now.Sub(p.last) < progressInterval {
		return false
	}
	p.sent++
	p.last = now
	err := p.notify(ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: float64(p.sent), Message: message})
	if err != nil {
		// The client is gone, or will see the result in the answer.
		log.FromContext(ctx).V(1).Info("Could not report the progress of a call", "error", err.Error())
	}
	return true
}
