package records

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuiteIsComplete fails if the library's suite has a function that is neither run on the store
// and on the cacher nor listed in notPassed with the reason.
func TestSuiteIsComplete(t *testing.T) {
	has := map[string]bool{}
	for _, test := range eithers() {
		has["raw "+test.name], has["cacher "+test.name] = true, true
	}
	for name := range rawTests() {
		has["raw "+name] = true
	}
	for name := range cacherTests() {
		has["cacher "+name] = true
	}
	library := map[string]bool{}
	for _, name := range suiteFunctions(t) {
		for _, on := range []string{"raw ", "cacher "} {
			library[on+name] = true
			if !has[on+name] && notPassed[on+name] == "" {
				t.Errorf("%s%s is not run, and notPassed has no reason", on, name)
			}
		}
	}
	for name := range has {
		if !library[name] {
			t.Errorf("%s is run, but the library has no such function", name)
		}
	}
	for name := range notPassed {
		if !library[name] {
			t.Errorf("notPassed has %s, but the library has no such function", name)
		}
	}
}

// suiteFunctions returns the names of the suite's tests from its source.
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
