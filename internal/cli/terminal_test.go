package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                "plain",
		"a\tb\nc":              "a b c",
		"\x1b[31mred\x1b[0m":   "[31mred[0m",
		"bell\a\r\x7f\u009b2J": "bell2J",
		"turned \u202eback":    "turned back",
		"Grüße, 世界 ✓":          "Grüße, 世界 ✓",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) is %q, want %q", in, got, want)
		}
	}
	if got := Visible("a\tb\n\x1b[31mred\r\u009b2J\u202e\n"); got != "a\tb\n[31mred2J\n" {
		t.Errorf("Visible gives %q", got)
	}
}

// TestColours checks that there are no colors if the stream is not a terminal.
func TestColours(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if Colours(file) || Colours(&bytes.Buffer{}) {
		t.Error("a file or a buffer gets colours")
	}
	if got := Paint(true).Text(Red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("red is %q", got)
	}
	if got := Paint(false).Text(Red, "x"); got != "x" {
		t.Errorf("without colours it is %q", got)
	}
}

// TestTable checks that columns are aligned whatever their colors, and that lines have no
// trailing spaces.
func TestTable(t *testing.T) {
	table := &Table{Header: []string{"NAME", "STATE"}}
	table.Add(Text("größer"), Text("").In(Red))
	table.Add(Text("b"), Cell{})
	var plain, painted bytes.Buffer
	table.Write(&plain, false)
	table.Write(&painted, true)
	if want := "NAME     STATE\ngrößer   -\nb\n"; plain.String() != want {
		t.Errorf("the table is %q, want %q", plain.String(), want)
	}
	if want := "\x1b[2mNAME\x1b[0m     \x1b[2mSTATE\x1b[0m\ngrößer   \x1b[31m-\x1b[0m\nb\n"; painted.String() != want {
		t.Errorf("in colours it is %q, want %q", painted.String(), want)
	}
}

// TestNarrow checks that words are not broken.
func TestNarrow(t *testing.T) {
	if got, want := Wrap("one two a-long-word x", 10, "  "), "one two\n  a-long-word\n  x"; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	table := &Table{Header: []string{"NAME", "STATE"}, Columns: 12}
	table.Add(Text("production"), Text("Ready"))
	table.Add(Text("b"), Text("Pending"))
	var out bytes.Buffer
	table.Write(&out, false)
	if want := "NAME    production\nSTATE   Ready\n\nNAME    b\nSTATE   Pending\n"; out.String() != want {
		t.Errorf("the table is %q, want %q", out.String(), want)
	}
}

// TestProgressFits checks that the output on a terminal fits into one line.
func TestProgressFits(t *testing.T) {
	var out bytes.Buffer
	began := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	p := NewProgress(&out, true, 40, began)
	p.Report(began.Add(time.Minute), 1, 2, "coder.ada.dev", strings.Repeat("long ", 40))
	if want := "\r\x1b[K[##########----------] 1/2 60s  coder.…"; out.String() != want {
		t.Errorf("the line is %q, want %q", out.String(), want)
	}
}

func TestAsk(t *testing.T) {
	for in, want := range map[string]bool{"y\n": true, "YES\n": true, "y": true, "n\n": false, "yesterday\n": false, "": false} {
		got, err := Ask(t.Context(), strings.NewReader(in), &bytes.Buffer{}, "Really?")
		if err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", in, got, err, want)
		}
	}
}
