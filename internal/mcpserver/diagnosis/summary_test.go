package diagnosis

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// TestFitted checks that a report that is far too long keeps its most important parts.
func TestFitted(t *testing.T) {
	// This character takes six bytes in JSON.
	long := strings.Repeat("<", 3000)
	r := &Report{Summary: "s"}
	for i := range mostFindings {
		r.Findings = append(r.Findings, Finding{Where: fmt.Sprint(i), What: redaction.Truncate(long, longestSentence), Evidence: evidence(long), Do: "d"})
		r.Conditions = append(r.Conditions, Condition{Message: redaction.Truncate(long, longestMessage)})
		r.Logs = append(r.Logs, Log{Text: strings.Repeat("line of a log\n", 200)})
	}
	for range mostEvents {
		r.Events = append(r.Events, Event{Message: redaction.Truncate(long, longestMessage)})
	}
	r = fitted(r)
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > longestReport || !r.Truncated || r.Gaps[len(r.Gaps)-1] != cutNotice {
		t.Errorf("%d bytes, truncated %v, gaps %q", len(raw), r.Truncated, r.Gaps)
	}
	if len(r.Findings) == 0 || r.Findings[0].Where != "0" {
		t.Errorf("the first finding is gone")
	}
}

// TestFittedKeepsTheNewest checks that the oldest parts of logs and Events are left out.
func TestFittedKeepsTheNewest(t *testing.T) {
	r := &Report{Logs: []Log{{Text: "oldest\n" + strings.Repeat("a line of a log\n", 900) + "newest"}}}
	for i := range mostEvents {
		r.Events = append(r.Events, Event{Reason: fmt.Sprint(i), Message: strings.Repeat("m", longestMessage)})
	}
	r = fitted(r)
	if !strings.HasSuffix(r.Logs[0].Text, "newest") || strings.Contains(r.Logs[0].Text, "oldest") || r.Events[0].Reason != "0" {
		t.Errorf("%+v", r)
	}
}

func TestSmallReportIsNotCut(t *testing.T) {
	if r := fitted(&Report{Summary: "s"}); r.Truncated || len(r.Gaps) > 0 {
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
		for _, got := range []string{redaction.Truncate(s, most), tail(s, most), oneLine(s, most)} {
			if len(got) > most || !utf8.ValidString(got) {
				t.Errorf("%d bytes of at most %d: %q", len(got), most, got)
			}
		}
	})
}
