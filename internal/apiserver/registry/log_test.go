package registry

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// fakeLog is a fake log with lines and the error that follows them.
type fakeLog struct {
	lines  []coderd.LogLine
	err    error
	closed bool
}

func (l *fakeLog) Next(context.Context) (coderd.LogLine, error) {
	if len(l.lines) == 0 {
		return coderd.LogLine{}, l.err
	}
	line := l.lines[0]
	l.lines = l.lines[1:]
	return line, nil
}

func (l *fakeLog) Close() error {
	l.closed = true
	return nil
}

func TestStream(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.FixedZone("", 3600))
	lines := []coderd.LogLine{{CreatedAt: at, Stage: "Plan", Output: "one\r\ntwo"}, {CreatedAt: at, Stage: "Apply", Output: ""}}
	const begin = "2030-01-02T02:04:05.6Z "
	text := begin + "[Plan] one\n" + begin + "[Plan] two\n" + begin + "[Apply] \n"
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		end  error
		want string
	}{
		"to its end":            {t.Context(), io.EOF, text},
		"that breaks":           {t.Context(), errors.New("no answer"), text + "the rest of the log cannot be read: no answer\n"},
		"that nobody reads now": {gone, context.Canceled, text},
	} {
		source := &fakeLog{lines: lines, err: c.end}
		reader, flush, kind, err := NewLogStream(source, true).InputStream(c.ctx, "", "")
		if err != nil || !flush || kind != "text/plain; charset=utf-8" {
			t.Fatalf("a log %s: flush %t, %s, %v", name, flush, kind, err)
		}
		got, err := io.ReadAll(reader)
		if err != nil || string(got) != c.want {
			t.Errorf("a log %s: %q and %v, want %q", name, got, err, c.want)
		}
		if err := reader.Close(); err != nil || !source.closed {
			t.Errorf("a log %s was not closed: %v", name, err)
		}
	}
}

// TestStreamOfManyLines checks that an entry with many lines, each of which gets the prefix, is never
// in memory as a whole.
func TestStreamOfManyLines(t *testing.T) {
	const most = 1 << 10
	source := &fakeLog{lines: []coderd.LogLine{{Stage: "script", Output: strings.Repeat("\n", most)}}, err: io.EOF}
	stream, _, _, err := NewLogStream(source, false).InputStream(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	reader := stream.(*logReader)
	lines := 0
	for p := make([]byte, 1); ; {
		if _, err := reader.Read(p); errors.Is(err, io.EOF) {
			break
		}
		if p[0] == '\n' {
			lines++
		}
		if len(reader.rest) >= most {
			t.Fatalf("%d bytes of one entry are in memory", len(reader.rest))
		}
	}
	if lines != most+1 {
		t.Errorf("got %d lines, want %d", lines, most+1)
	}
}
