package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// TestFitted checks that a report that is far too long keeps its most important parts.
func TestFitted(t *testing.T) {
	// This character takes two bytes in JSON.
	long := strings.Repeat("\"", 3000)
	r := &Report{}
	for i := range 2 * mostProblems {
		r.Problems = append(r.Problems, Problem{Object: fmt.Sprint(i), Message: shown(long), Do: "d"})
		r.Logs = append(r.Logs, Log{Text: lastLines(strings.Repeat("line of a log\n", 200))})
	}
	for range mostEvents {
		r.Events = append(r.Events, Event{Message: oneLine(long, longestSentence)})
	}
	r = r.finish("CoderControlPlane a/b", "is not ready", "", []gap{{pods, "could not read pods"}})
	raw, err := toolset.JSON(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > longestReport || !r.Truncated {
		t.Errorf("%d bytes, truncated %v", len(raw), r.Truncated)
	}
	if len(r.Problems) == 0 || r.Problems[0].Object != "0" || !strings.HasPrefix(r.Summary, "CoderControlPlane a/b is not ready: \"") {
		t.Errorf("the first problem is gone: %.100s", r.Summary)
	}
}

func TestSmallReportIsNotCut(t *testing.T) {
	r := (&Report{Healthy: true}).finish("s", "works", "all is well", nil)
	if r.Truncated || len(r.Gaps) > 0 || r.Summary != "s works: all is well." {
		t.Errorf("%+v", r)
	}
}

func FuzzQuotes(f *testing.F) {
	f.Add("a\nb", 20)
	f.Add(strings.Repeat("ä", 500)+"\n", 333)
	f.Fuzz(func(t *testing.T, s string, most int) {
		if most < 8 || !utf8.ValidString(s) {
			return
		}
		if got := oneLine(s, most); len(got) > most || !utf8.ValidString(got) {
			t.Errorf("%d bytes of at most %d: %q", len(got), most, got)
		}
		if got := lastLines(s); len(got) > shownLogBytes || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}
