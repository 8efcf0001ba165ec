package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// fakeReviewer contains the permissions that users lack.
type fakeReviewer map[string][]callers.Right

func (fakeReviewer) MayEnter(context.Context, user.Info) (bool, error) { return true, nil }

func (f fakeReviewer) Lacks(ctx context.Context, rights []callers.Right) map[callers.Right]bool {
	lacks := map[callers.Right]bool{}
	if slices.Contains(rights[1:], rights[0]) {
		panic("the same right is asked for twice")
	}
	caller, ok := request.UserFrom(ctx)
	for _, right := range rights {
		lacks[right] = ok && slices.Contains(f[caller.GetName()], right)
	}
	return lacks
}

func TestCallersSeeTheToolsThatTheyMayUse(t *testing.T) {
	read, write := callers.Right{Verb: "get", Resource: "pods"}, callers.Right{Verb: "delete", Resource: "pods"}
	type object struct {
		Name string `json:"name"`
	}
	var set toolset.Set
	add := func(name string, rights ...callers.Right) {
		toolset.Add(&set, toolset.Definition{Name: name, Title: name, Description: name, Toolset: toolset.Workspaces, Effect: toolset.Reads, Rights: rights},
			func(context.Context, *toolset.Call, object) (object, error) { return object{Name: "called"}, nil })
	}
	add("a_read", read)
	add("b_write", write)
	add("c_both", read, write)
	add("d_none")
	toolset.Add(&set, toolset.Definition{Name: "e_either", Title: "e", Description: "e", Toolset: toolset.Workspaces, Effect: toolset.Reads, OneOf: []callers.Right{read, write}},
		func(context.Context, *toolset.Call, object) (object, error) { return object{Name: "called"}, nil })
	reviewer := fakeReviewer{"bob": {write}, "carol": {read, write}}
	want := map[string][]string{
		"alice": {"a_read", "b_write", "c_both", "d_none", "e_either"},
		"bob":   {"a_read", "d_none", "e_either"},
		"carol": {"d_none"},
	}
	for name, w := range ways {
		for caller, tools := range want {
			t.Run(name+" "+caller, func(t *testing.T) {
				// With pages of one tool, some pages are empty, and the following ones must
				// still be found.
				h := w.of(t, func(c *Config, l *limits) { c.Tools, c.Access, l.pageSize = &set, reviewer, 1 })
				c := h.connect(t, w.era, caller, nil)
				var got []string
				for tool, err := range c.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, tool.Name)
				}
				if diff := cmp.Diff(tools, got); diff != "" {
					t.Errorf("tools (-want +got):\n%s", diff)
				}
				// A hidden tool can still be called: the API server decides.
				if result := c.call(t, "b_write", map[string]any{"name": "x"}); result.IsError {
					t.Errorf("calling a tool that is not shown gives %s", textOf(result))
				}
			})
		}
	}
}

func TestCompletionsAreCut(t *testing.T) {
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	tests := map[string]struct {
		result *mcp.CompleteResult
		err    error
		want   mcp.CompletionResultDetails
	}{
		"few":               {&mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: many[:2], Total: 2}}, nil, mcp.CompletionResultDetails{Values: many[:2], Total: 2}},
		"many":              {&mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: many}}, nil, mcp.CompletionResultDetails{Values: many[:100], Total: 150, HasMore: true}},
		"some of very many": {&mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: many, Total: 9000}}, nil, mcp.CompletionResultDetails{Values: many[:100], Total: 9000, HasMore: true}},
		"nothing":           {&mcp.CompleteResult{}, nil, mcp.CompletionResultDetails{Values: []string{}}},
		"no answer":         {nil, nil, mcp.CompletionResultDetails{Values: []string{}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			complete := completion(func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) { return tt.result, tt.err })
			got, err := complete(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Completion); diff != "" {
				t.Errorf("completion (-want +got):\n%s", diff)
			}
		})
	}
	if completion(nil) != nil {
		t.Error("without a handler completion is offered")
	}
	failing := completion(func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) { return nil, errors.New("x") })
	if result, err := failing(t.Context(), nil); err == nil || result != nil {
		t.Errorf("an error gives %v, %v", result, err)
	}
}

// BenchmarkCall measures the overhead of a call, including the SDK's client on the same
// machine.
func BenchmarkCall(b *testing.B) {
	for name, w := range ways {
		b.Run(name, func(b *testing.B) {
			h := w.of(b, content(addWhoAmI))
			c := h.connect(b, w.era, "alice", nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallTool(b.Context(), &mcp.CallToolParams{Name: "whoami"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
