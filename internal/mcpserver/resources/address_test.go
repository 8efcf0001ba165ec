package resources

import (
	"path"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for uri, want := range map[string]string{
		"coder://controlplanes":                                 "controlplanes",
		"coder://controlplanes/coder":                           "controlplanes coder",
		"coder://controlplanes/coder/prod":                      "controlplanes coder prod",
		"coder://controlplanes/coder/prod/events":               "controlplanes coder prod events",
		"coder://controlplanes/coder/prod/pods":                 "controlplanes coder prod pods",
		"coder://workspaces/coder/coder.ada.dev":                "workspaces coder coder.ada.dev",
		"coder://workspaces/coder/coder.ada.dev/log":            "workspaces coder coder.ada.dev log",
		"coder://templates/coder/coder.small":                   "templates coder coder.small",
		"coder://templates/coder/coder.small/files/main.tf":     "templates coder coder.small files main.tf",
		"coder://templates/coder/x/files/modules/a%20b/main.tf": "templates coder x files modules/a b/main.tf",
		"coder://templates/coder/x/files/a%2Fb":                 "templates coder x files a/b",
		"http://controlplanes":                                  "",
		"coder://":                                              "",
		"coder://secrets/coder/x":                               "",
		"coder://workspaces":                                    "",
		"coder://workspaces/coder":                              "",
		"coder://controlplanes/":                                "",
		"coder://controlplanes/coder/":                          "",
		"coder://controlplanes//prod":                           "",
		"coder://controlplanes/coder/prod/log":                  "",
		"coder://controlplanes/coder/prod/pods/x":               "",
		"coder://controlplanes/coder/prod//x":                   "",
		"coder://workspaces/coder/x/files/main.tf":              "",
		"coder://workspaces/../x":                               "",
		"coder://workspaces/%2E%2E/x":                           "",
		"coder://workspaces/coder/a%2Fb":                        "",
		"coder://workspaces/coder/a%":                           "",
		"coder://templates/coder/x/files":                       "",
		"coder://templates/coder/x/files/":                      "",
		"coder://templates/coder/x/files/../y":                  "",
		"coder://templates/coder/x/files/a//b":                  "",
		"coder://templates/coder/x/files//etc/passwd":           "",
	} {
		a, ok := parseAddress(uri)
		if ok != (want != "") {
			t.Errorf("%s: ok is %t", uri, ok)
			continue
		}
		got := strings.Join(strings.Fields(strings.Join([]string{a.collection.name, a.namespace, a.name, a.part, a.file}, " ")), " ")
		if ok && got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{
		"coder://controlplanes", "coder://controlplanes/a/b/pods", "coder://templates/a/b/files/c/d%20e.tf", "coder://workspaces/a/b/log", "coder://workspaces/%00/..",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		a, ok := parseAddress(uri)
		if !ok {
			return
		}
		again, ok := parseAddress(a.String())
		if !ok || again.String() != a.String() || again.subresource("x").Path() != a.subresource("x").Path() || again.file != a.file {
			t.Errorf("%q is %+v, and its own URI %q is %+v", uri, a, a.String(), again)
		}
		if a.name != "" && (path.Clean(a.subresource("x").Path()) != a.subresource("x").Path() || strings.Count(a.subresource("x").Path(), "/") != 8) {
			t.Errorf("%q leads to %q", uri, a.subresource("x").Path())
		}
	})
}
