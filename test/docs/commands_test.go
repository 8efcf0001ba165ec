package docs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/app"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin"
)

// begins matches the text before a command: nothing, a prompt, or another command.
const begins = `(?:^\s*(?:\$ )?|[;(&|]\s*|-- )`

func TestTargetsOfMakeAreThere(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, target := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(makefile, -1) {
		targets = append(targets, string(target[1]))
	}
	named := 0
	pattern := regexp.MustCompile(`` + begins + `(?:[A-Z_]+=\S+ )?make (?:-s |--no-print-directory )*([a-z][a-z0-9-]*)`)
	for _, p := range pages(t) {
		for _, l := range p.lines {
			for _, code := range l.codes() {
				for _, call := range pattern.FindAllStringSubmatch(code, -1) {
					named++
					if !slices.Contains(targets, call[1]) {
						t.Errorf("%s: the Makefile has no target %q", p.at(l), call[1])
					}
				}
			}
		}
	}
	if named == 0 {
		t.Error("no page names a target of make: the pattern of this test is wrong")
	}
}

// commandPattern finds calls of our programs: the words that follow, and all of
// the line up to the next command.
var commandPattern = regexp.MustCompile(`` + begins + `(kubectl[ -]coder|coder-k8s)((?: [a-z][a-z-]*)*)((?: [^|;&#)]*)?)`)

func TestFlagsOfCommandsAreThere(t *testing.T) {
	named := 0
	for _, p := range pages(t) {
		for _, l := range p.lines {
			for _, code := range l.codes() {
				for _, call := range commandPattern.FindAllStringSubmatch(code, -1) {
					for _, flag := range flagPattern.FindAllString(call[3], -1) {
						named++
						if help := help(t, call[1], strings.Fields(call[2])); !hasFlag(help, flag) {
							t.Errorf("%s: %s%s has no flag %s", p.at(l), call[1], call[2], flag)
						}
					}
				}
			}
		}
	}
	if named == 0 {
		t.Error("no page calls one of our programs with a flag: the pattern of this test is wrong")
	}
}

var flagPattern = regexp.MustCompile(`--[a-z][a-z0-9-]+`)

func hasFlag(help, flag string) bool {
	return regexp.MustCompile(regexp.QuoteMeta(flag) + `($|[^a-z0-9-])`).MatchString(help)
}

// help returns the help text of a command. Words that are not names of commands are arguments,
// and change nothing.
func help(t *testing.T, program string, words []string) string {
	t.Helper()
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}
	args := append(slices.Clone(words), "--help")
	run := plugin.Run
	if program == "coder-k8s" {
		run = app.Run
	} else if code := run(context.Background(), []string{"options"}, streams); code != cli.ExitOK {
		// The help of the plugin lists only the most common of the flags that all commands
		// have.
		t.Fatalf("kubectl coder options: exit code %d\n%s", code, out.String())
	}
	if code := run(context.Background(), args, streams); code != cli.ExitOK {
		t.Fatalf("%s %s --help: exit code %d\n%s", program, strings.Join(words, " "), code, out.String())
	}
	return out.String()
}
