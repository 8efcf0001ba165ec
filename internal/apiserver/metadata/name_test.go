package metadata

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestParseWorkspace(t *testing.T) {
	for name, want := range map[string]*Name{
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
		got, err := ParseWorkspaceName(name)
		if want == nil {
			if err == nil {
				t.Errorf("%q is taken for %+v", name, got)
			}
			continue
		}
		if diff := cmp.Diff(*want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", name, err, diff)
		}
		if joined := JoinName(got.Prefix, got.Organization, got.Owner, got.Name); joined != name {
			t.Errorf("%q comes back as %q", name, joined)
		}
	}
}

func TestParseTemplate(t *testing.T) {
	for name, want := range map[string]*Name{
		"coder.docker":     {Organization: "coder", Name: "docker"},
		"two.coder.docker": {Prefix: "two.", Organization: "coder", Name: "docker"},
		"docker":           nil,
		"a.b.c.d":          nil,
	} {
		got, err := ParseTemplateName(name)
		if want == nil {
			if err == nil {
				t.Errorf("%q is taken for %+v", name, got)
			}
			continue
		}
		if diff := cmp.Diff(*want, got); diff != "" || err != nil || JoinName(got.Prefix, got.Organization, got.Name) != name {
			t.Errorf("%q: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestUpperCaseOfCoder(t *testing.T) {
	if got := JoinName("", "Acme", "Ada", "Dev"); got != "acme.ada.dev" {
		t.Errorf("the object is called %q", got)
	}
}

// A Coder whose answer lacks an organization must not name an object of another control plane.
func TestNameWithoutAPart(t *testing.T) {
	if got, err := ParseWorkspaceName(JoinName("other.", "", "ada", "dev")); err == nil {
		t.Errorf("the name is taken for %+v", got)
	}
}

func FuzzParseWorkspace(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parsed, err := ParseWorkspaceName(name)
		if err != nil {
			return
		}
		if joined := JoinName(parsed.Prefix, parsed.Organization, parsed.Owner, parsed.Name); joined != name {
			t.Errorf("%q comes back as %q", name, joined)
		}
		wantParts(t, name, parsed.Prefix, parsed.Organization, parsed.Owner, parsed.Name)
		if _, err := ParseTemplateName(name); err == nil && parsed.Prefix != "" {
			t.Errorf("%q with a control plane is also a template", name)
		}
	})
}

func FuzzParseTemplate(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parsed, err := ParseTemplateName(name)
		if err != nil {
			return
		}
		if joined := JoinName(parsed.Prefix, parsed.Organization, parsed.Name); joined != name {
			t.Errorf("%q comes back as %q", name, joined)
		}
		wantParts(t, name, parsed.Prefix, parsed.Organization, parsed.Name)
	})
}

func seeds() []string {
	return []string{"coder.ada.dev", "two.coder.ada.dev", "coder.docker", "two.coder.docker", "...", "a..b", "-a.b-.c", "A.b.c", "a.b.c\x00", "\xff.b", strings.Repeat("x.", 40)}
}

// wantParts checks that the parts are valid in URLs of Coder, and that the name is valid in
// Kubernetes.
func wantParts(t *testing.T, name, prefix string, parts ...string) {
	t.Helper()
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 && len(name) <= validation.DNS1123SubdomainMaxLength {
		t.Errorf("%q is no name in Kubernetes: %v", name, problems)
	}
	if prefix != "" {
		parts = append(parts, strings.TrimSuffix(prefix, "."))
	}
	for _, p := range parts {
		if p == "" || len(p) > maxNamePart || strings.ContainsAny(p, "./?#%\\ ") || strings.ToLower(p) != p {
			t.Errorf("%q has the part %q", name, p)
		}
	}
}

func TestID(t *testing.T) {
	for _, id := range []string{"1234abcd", "1234abcd-0000-4000-8000-000000000000"} {
		name := NameWithID("coder.ada.dev", id)
		if name != "coder.ada.dev--"+id || NameWithoutID(name) != "coder.ada.dev" {
			t.Errorf("%s is %s without it", name, NameWithoutID(name))
		}
		if _, err := ParseWorkspaceName(name); err == nil {
			t.Errorf("a new object may have the name %s", name)
		}
	}
	if plain := "coder.ada.dev-1234abcd"; NameWithoutID(plain) != plain {
		t.Errorf("%s is %s without an id", plain, NameWithoutID(plain))
	}
}
