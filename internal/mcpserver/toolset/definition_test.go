package toolset

import (
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
)

func TestAToolIsUselessWhereNoCallCanSucceed(t *testing.T) {
	get, start, stop, watch := access.Right{Verb: "get"}, access.Right{Verb: "start"}, access.Right{Verb: "stop"}, access.Right{Verb: "watch"}
	d := Definition{Rights: []access.Right{get}, OneOf: []access.Right{start, stop}, Uses: []access.Right{watch}}
	for name, tc := range map[string]struct {
		lacks []access.Right
		want  bool
	}{
		"nothing is lacking":            {nil, false},
		"what every call needs":         {[]access.Right{get}, true},
		"one of the first two":          {[]access.Right{start}, false},
		"the other one":                 {[]access.Right{stop}, false},
		"both of them":                  {[]access.Right{start, stop}, true},
		"what only makes answers full":  {[]access.Right{watch}, false},
		"what another tool asked about": {[]access.Right{{Verb: "delete"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			lacks := map[access.Right]bool{start: false}
			for _, right := range tc.lacks {
				lacks[right] = true
			}
			if got := d.Useless(lacks); got != tc.want {
				t.Errorf("it is useless: %t, want %t", got, tc.want)
			}
		})
	}
	if (Definition{}).Useless(map[access.Right]bool{get: true}) {
		t.Error("a tool that needs no right is useless to somebody")
	}
}
