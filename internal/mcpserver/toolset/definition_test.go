package toolset

import (
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

func TestAToolIsUselessWhereNoCallCanSucceed(t *testing.T) {
	get, start, stop, watch := callers.Right{Verb: "get"}, callers.Right{Verb: "start"}, callers.Right{Verb: "stop"}, callers.Right{Verb: "watch"}
	d := Definition{Rights: []callers.Right{get}, OneOf: []callers.Right{start, stop}, Uses: []callers.Right{watch}}
	for name, tc := range map[string]struct {
		lacks []callers.Right
		want  bool
	}{
		"nothing is lacking":            {nil, false},
		"what every call needs":         {[]callers.Right{get}, true},
		"one of the first two":          {[]callers.Right{start}, false},
		"the other one":                 {[]callers.Right{stop}, false},
		"both of them":                  {[]callers.Right{start, stop}, true},
		"what only makes answers full":  {[]callers.Right{watch}, false},
		"what another tool asked about": {[]callers.Right{{Verb: "delete"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			lacks := map[callers.Right]bool{start: false}
			for _, right := range tc.lacks {
				lacks[right] = true
			}
			if got := d.Useless(lacks); got != tc.want {
				t.Errorf("it is useless: %t, want %t", got, tc.want)
			}
		})
	}
	if (Definition{}).Useless(map[callers.Right]bool{get: true}) {
		t.Error("a tool that needs no right is useless to somebody")
	}
}
