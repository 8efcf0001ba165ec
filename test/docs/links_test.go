package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		for _, l := range p.lines {
			for _, link := range l.links() {
				if problem := broken(t, p, link); problem != "" {
					t.Errorf("%s: %s", p.at(l), problem)
				}
			}
		}
	}
}

// broken returns the problem of a link of a page, or "". External links are not
// followed.
func broken(t *testing.T, from page, link string) string {
	t.Helper()
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	file, name, hasAnchor := strings.Cut(link, "#")
	target := from.path
	if file != "" {
		target = path.Join(path.Dir(from.path), file)
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil || strings.HasPrefix(target, "..") {
		return fmt.Sprintf("%s leads to %s, which is not there", link, target)
	}
	if hasAnchor && path.Ext(target) == ".md" && !readPage(t, target).anchors()[name] {
		return fmt.Sprintf("%s: no heading of %s has this anchor", link, target)
	}
	return ""
}

func TestEachPageIsInTheContentsOnce(t *testing.T) {
	const contents = "docs/contents.md"
	listed := map[string]int{}
	for _, l := range readPage(t, contents).lines {
		if !strings.HasPrefix(l.text, "- ") {
			continue
		}
		for _, link := range l.links() {
			listed[path.Join("docs", link)]++
		}
	}
	for _, p := range pages(t) {
		if strings.HasPrefix(p.path, "docs/") && p.path != "docs/index.md" && p.path != contents && listed[p.path] != 1 {
			t.Errorf("%s names %s %d times, not once: add it to its group, the sidebar of the site follows", contents, p.path, listed[p.path])
		}
	}
}

func TestEachPictureIsShown(t *testing.T) {
	shown := map[string]bool{}
	for _, p := range pages(t) {
		for _, l := range p.lines {
			for _, link := range l.links() {
				shown[path.Join(path.Dir(p.path), link)] = true
			}
		}
	}
	pictures, err := filepath.Glob(filepath.Join(root, "docs/pictures/*"))
	if err != nil || len(pictures) == 0 {
		t.Fatalf("docs/pictures: %d files, %v", len(pictures), err)
	}
	for _, file := range pictures {
		if name := "docs/pictures/" + filepath.Base(file); !shown[name] {
			t.Errorf("%s is on no page", name)
		}
	}
}

// The figures of the graph are on the page, in the section that each refers to.
func TestFiguresOfTheGraphStandOnThePage(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs/diagrams/performance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Figures []struct {
			Figure, From    string
			Ours, Yardstick json.Number
		}
	}
	if err := json.Unmarshal(content, &data); err != nil {
		t.Fatalf("docs/diagrams/performance.json: %v", err)
	}
	for _, each := range data.Figures {
		section, _, _ := strings.Cut(each.From, ",")
		for _, figure := range []json.Number{each.Ours, each.Yardstick} {
			if !slices.ContainsFunc(sectionLines(t, section), func(text string) bool { return hasNumber(text, figure.String()) }) {
				t.Errorf("%s: %s does not stand in section %q of docs/explanation/performance.md", each.Figure, figure, section)
			}
		}
	}
}

func sectionLines(t *testing.T, section string) []string {
	t.Helper()
	var lines []string
	within := false
	for _, l := range readPage(t, "docs/explanation/performance.md").lines {
		if heading := headingPattern.FindStringSubmatch(l.text); heading != nil {
			within = heading[1] == section
		}
		if within {
			lines = append(lines, l.text)
		}
	}
	return lines
}

// hasNumber reports whether a text contains a number as a word, with or without
// thousands separators.
func hasNumber(text, number string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !strings.ContainsRune("0123456789.,", r) }) {
		plain := strings.ReplaceAll(strings.Trim(word, ".,"), ",", "")
		if _, err := strconv.ParseFloat(plain, 64); err == nil && plain == number {
			return true
		}
	}
	return false
}
