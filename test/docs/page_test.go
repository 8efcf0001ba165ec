package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// root is the repository's, from here.
const root = "../.."

// page is a file of Markdown.
type page struct {
	// path is from the root of the repository, with slashes.
	path  string
	lines []line
}

// line is one line of a page.
type line struct {
	number int
	text   string
	// code is set inside a block of code.
	code bool
}

func (p page) at(l line) string { return fmt.Sprintf("%s:%d", p.path, l.number) }

// pages returns all pages of the repository.
func pages(t *testing.T) []page {
	t.Helper()
	var found []page
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "node_modules", "bin", "dist", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !entry.IsDir() && filepath.Ext(path) == ".md" {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, readPage(t, filepath.ToSlash(relative)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func readPage(t *testing.T, path string) page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	read, fence := page{path: path}, ""
	for i, text := range strings.Split(string(content), "\n") {
		trimmed := strings.TrimSpace(text)
		mark := trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
		switch {
		case fence == "" && len(mark) >= 3:
			fence = mark
			continue
		case fence != "" && trimmed == fence:
			fence = ""
			continue
		}
		read.lines = append(read.lines, line{number: i + 1, text: text, code: fence != ""})
	}
	return read
}

var (
	headingPattern = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	linkPattern    = regexp.MustCompile(`\[[^\[\]]*\]\(([^()\s]+)\)`)
	codePattern    = regexp.MustCompile("`+[^`]+`+")
)

// anchors returns the anchors that GitHub and the site
// (docs/.vitepress/links.js) generate from the page's headings.
func (p page) anchors() map[string]bool {
	found := map[string]bool{}
	for _, l := range p.lines {
		heading := headingPattern.FindStringSubmatch(l.text)
		if l.code || heading == nil {
			continue
		}
		name := anchor(regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1"))
		unique := name
		for again := 1; found[unique]; again++ {
			unique = fmt.Sprintf("%s-%d", name, again)
		}
		found[unique] = true
	}
	return found
}

func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// links are the targets of the links and pictures of a line.
func (l line) links() []string {
	if l.code {
		return nil
	}
	var targets []string
	for _, link := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(l.text, ""), -1) {
		targets = append(targets, link[1])
	}
	return targets
}

// codes returns the code in a line: the whole line in a block, otherwise the
// texts between backticks.
func (l line) codes() []string {
	if l.code {
		return []string{l.text}
	}
	var found []string
	for _, each := range codePattern.FindAllString(l.text, -1) {
		found = append(found, strings.Trim(each, "`"))
	}
	return found
}
