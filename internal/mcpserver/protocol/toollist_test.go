package protocol

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
