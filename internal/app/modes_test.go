package app

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableOfModes(t *testing.T) {
	type part struct {
		Name    string
		Elected bool
	}
	controllers, api, mcp := part{"controllers", true}, part{"aggregated-api", false}, part{"mcp", false}
	want := map[Mode][]part{
		ModeAll:                 {controllers, api, mcp},
		ModeController:          {controllers},
		ModeAggregatedAPIServer: {api},
		ModeMCP:                 {mcp},
	}
	got := map[Mode][]part{}
	for _, line := range modes() {
		for _, c := range line.components {
			got[line.mode] = append(got[line.mode], part{c.name, c.elected})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllIsTheUnion(t *testing.T) {
	var all, others []string
	for _, line := range modes() {
		for _, c := range line.components {
			if line.mode == ModeAll {
				all = append(all, c.name)
			} else {
				others = append(others, c.name)
			}
		}
	}
	slices.Sort(all)
	slices.Sort(others)
	if diff := cmp.Diff(others, all); diff != "" {
		t.Errorf("(-others +all):\n%s", diff)
	}
}

func TestOnlyAStaticCoderNeedsNoCache(t *testing.T) {
	api := aggregatedAPIComponent()
	if o := NewOptions(); !api.cached(o) {
		t.Error("discovery needs the cache of control planes")
	}
	o := NewOptions()
	o.Coder.URL = "https://coder.example.com"
	if api.cached(o) {
		t.Error("a static Coder must not need the custom resource definitions")
	}
}
