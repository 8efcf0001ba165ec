package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	sources     = "../../internal"
	logDocument = "../../docs/reference/logs.md"
)

// computedKeys are the log keys that are not literals, by expression.
func computedKeys() map[string][]string {
	return map[string][]string{
		"tracing.RequestIDLogKey": {"requestID"},
		"did.kind":                {"tool", "prompt", "uri"},
	}
}

// TestLogKeysAreThoseOfTheDocs checks that the code uses only the log keys in the table of
// the docs. A missing key is either new and must be added, or a synonym of an existing key.
func TestLogKeysAreThoseOfTheDocs(t *testing.T) {
	documented, written := documentedKeys(t), keysOfTheCode(t)
	for _, key := range written {
		if !slices.Contains(documented, key) {
			t.Errorf("the key %q is not in the table of docs/reference/logs.md: add it, or use the word that is there for the same thing", key)
		}
	}
	for _, key := range documented {
		if !slices.Contains(written, key) {
			t.Errorf("nothing logs the key %q of docs/reference/logs.md: remove it there", key)
		}
	}
}

// documentedKeys returns the keys in the table, which are at the beginning of its rows.
func documentedKeys(t *testing.T) []string {
	t.Helper()
	document, err := os.ReadFile(logDocument)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for line := range strings.Lines(string(document)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, found := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			keys[found[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

func keysOfTheCode(t *testing.T) []string {
	t.Helper()
	keys := map[string]bool{}
	err := filepath.WalkDir(sources, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			for _, key := range keysOf(node) {
				known, ok := keyNames(key)
				if !ok {
					t.Errorf("%s: the key of a log line cannot be read; write it as a literal", files.Position(key.Pos()))
				}
				for _, name := range known {
					keys[name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(keys))
}

// keysOf returns the keys in a call of a logger, or in an append to the list named values.
func keysOf(node ast.Node) []ast.Expr {
	switch n := node.(type) {
	case *ast.CallExpr:
		if isAppendToValues(n) {
			return everySecond(n.Args[1:])
		}
		method, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		before, isLogging := map[string]int{"WithValues": 0, "Info": 1, "Error": 2}[method.Sel.Name]
		if receiver, ok := method.X.(*ast.Ident); !isLogging || ok && receiver.Name == "http" || len(n.Args) <= before || n.Ellipsis.IsValid() {
			return nil
		}
		return everySecond(n.Args[before:])
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			name, ok := left.(*ast.Ident)
			if list, isList := n.Rhs[min(i, len(n.Rhs)-1)].(*ast.CompositeLit); ok && isList && name.Name == "values" && isListOfAny(list) {
				return everySecond(list.Elts)
			}
		}
	}
	return nil
}

func isAppendToValues(call *ast.CallExpr) bool {
	function, ok := call.Fun.(*ast.Ident)
	if !ok || function.Name != "append" || len(call.Args) < 2 || call.Ellipsis.IsValid() {
		return false
	}
	list, isName := call.Args[0].(*ast.Ident)
	_, isKey := call.Args[1].(*ast.BasicLit)
	return isName && isKey && list.Name == "values"
}

func isListOfAny(list *ast.CompositeLit) bool {
	array, ok := list.Type.(*ast.ArrayType)
	if !ok {
		return false
	}
	element, ok := array.Elt.(*ast.Ident)
	return ok && element.Name == "any"
}

func everySecond(all []ast.Expr) []ast.Expr {
	var some []ast.Expr
	for i := 0; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

func keyNames(key ast.Expr) ([]string, bool) {
	var written string
	switch k := key.(type) {
	case *ast.BasicLit:
		name, err := strconv.Unquote(k.Value)
		return []string{name}, err == nil
	case *ast.SelectorExpr:
		if of, ok := k.X.(*ast.Ident); ok {
			written = of.Name + "." + k.Sel.Name
		}
	}
	names, ok := computedKeys()[written]
	return names, ok
}
