package objectname

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseWorkspace(t *testing.T) {
	for name, want := range map[string]*Workspace{
		"coder.ada.dev":                        {Organization: "coder", Owner: "ada", Name: "dev"},
		"two.coder.ada-b.dev-1":                {Prefix: "two.", Organization: "coder", Owner: "ada-b", Name: "dev-1"},
		"coder.ada":                            nil,
		"a.b.c.d.e":                            nil,
		"coder.Ada.dev":                        nil,
		"coder..dev":                           nil,
		"coder.ada.-dev":                       nil,
		"coder.ada.d--ev":                      nil,
		"":                                     nil,
		"coder.ada.d_ev":                       nil,
		"coder.ada." + strings.Repeat("x", 65): nil,
	} {
		got, err := ParseWorkspace(name)
		if want == nil {
			if err == nil {
				t.Errorf("%q is taken for %+v", name, got)
			}
			continue
		}
		if diff := cmp.Diff(*want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", name, err, diff)
		}
		if got.String() != name {
			t.Errorf("%q comes back as %q", name, got.String())
		}
	}
}

func TestParseTemplate(t *testing.T) {
	for name, want := range map[string]*Template{
		"coder.docker":     {Organization: "coder", Name: "docker"},
		"two.coder.docker": {Prefix: "two.", Organization: "coder", Name: "docker"},
		"docker":           nil,
		"a.b.c.d":          nil,
	} {
		got, err := ParseTemplate(name)
		if want == nil {
			if err == nil {
				t.Errorf("%q is taken for %+v", name, got)
			}
			continue
		}
		if diff := cmp.Diff(*want, got); diff != "" || err != nil || got.String() != name {
			t.Errorf("%q: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestUpperCaseOfCoder(t *testing.T) {
	if got := (Workspace{Organization: "Acme", Owner: "Ada", Name: "Dev"}).String(); got != "acme.ada.dev" {
		t.Errorf("the object is called %q", got)
	}
}

func FuzzParseWorkspace(f *testing.F) {
	f.Add("coder.ada.dev")
	f.Add("two.coder.ada.dev")
	f.Add("...")
	f.Fuzz(func(t *testing.T, name string) {
		if parsed, err := ParseWorkspace(name); err == nil && parsed.String() != name {
			t.Errorf("%q comes back as %q", name, parsed.String())
		}
	})
}
