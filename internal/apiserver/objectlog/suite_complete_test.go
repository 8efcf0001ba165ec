package objectlog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSuiteIsComplete fails where the library's suite has a function that is
// neither run here nor has a reason not to be.
func TestSuiteIsComplete(t *testing.T) {
	ran := map[string]bool{"raw RunTestStats": true, "cacher RunTestStats": true}
	for _, test := range eithers() {
		ran["raw "+test.name], ran["cacher "+test.name] = true, true
	}
	for name := range maps.Keys(rawTests()) {
		ran["raw "+name] = true
	}
	for name := range maps.Keys(transformTests()) {
		ran["raw "+name] = true
	}
	for name := range maps.Keys(cacherTests()) {
		ran["cacher "+name] = true
	}
	for name := range maps.Keys(snapshotTests(true)) {
		ran["cacher "+name] = true
	}
	wanted := map[string]bool{}
	for _, name := range suiteFunctions(t) {
		for _, on := range []string{"raw ", "cacher "} {
			wanted[on+name] = true
			if ran[on+name] == (notRun[on+name] != "") {
				t.Errorf("%s%s: run %v, reason not to run it %q", on, name, ran[on+name], notRun[on+name])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ran)) {
		if !wanted[name] {
			t.Errorf("%s is run, but the library has no such function", name)
		}
	}
}

// suiteFunctions are the names of the suite's tests, as its source has them.
func suiteFunctions(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output()
	if err != nil {
		t.Fatalf("looking for the library's suite: %v", err)
	}
	library := strings.TrimSpace(string(out))
	var names []string
	for _, file := range []string{"store_tests.go", "watcher_tests.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(library, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") {
				names = append(names, f.Name.Name)
			}
		}
	}
	if len(names) < 50 {
		t.Fatalf("only %d functions of the suite were found in %s", len(names), library)
	}
	return names
}
