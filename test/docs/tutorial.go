package docs

import (
	"fmt"
	"regexp"
	"strings"
)

// TutorialBlock is a block of commands in a tutorial.
type TutorialBlock struct {
	// Line is the line of its first command, from 1.
	Line int
	Text string
}

const fence = "```"

// TutorialBlocks returns the blocks of a tutorial that are marked as sh. The error names the
// line of a block that does not end.
func TutorialBlocks(markdown string) ([]TutorialBlock, error) {
	var blocks []TutorialBlock
	open, runs := 0, false
	var text strings.Builder
	for i, line := range strings.Split(markdown, "\n") {
		switch {
		case strings.HasPrefix(line, fence) && open == 0:
			open, runs = i+1, strings.TrimPrefix(line, fence) == "sh"
			text.Reset()
		case strings.HasPrefix(line, fence):
			if runs {
				blocks = append(blocks, TutorialBlock{Line: open + 1, Text: text.String()})
			}
			open = 0
		case open > 0:
			text.WriteString(line + "\n")
		}
	}
	if open > 0 {
		return nil, fmt.Errorf("the block that begins in line %d has no end", open)
	}
	return blocks, nil
}

// TutorialScript returns a script that runs the blocks one after the other and prints the
// current block. It ends at the first command that fails.
func TutorialScript(file string, blocks []TutorialBlock) string {
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for _, block := range blocks {
		fmt.Fprintf(&script, "echo '== %s:%d'\n%s", file, block.Line, block.Text)
	}
	return script.String()
}

var creation = regexp.MustCompile(`(?m)^kubectl create namespace (\S+)$`)

// TutorialNamespaces returns the names of the namespaces that the blocks create.
func TutorialNamespaces(blocks []TutorialBlock) []string {
	var names []string
	for _, block := range blocks {
		for _, match := range creation.FindAllStringSubmatch(block.Text, -1) {
			names = append(names, match[1])
		}
	}
	return names
}
