package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// lastScreenSeconds is how long the last screen of a recording is shown before the animation
	// starts again.
	lastScreenSeconds = 5
	// maxEventBytes limits one event of a recording.
	maxEventBytes = 1 << 20
)

// span is the content of a row of the screen from begin to end, in seconds.
type span struct {
	row        int
	line       []cell
	begin, end float64
}

// animate reads an asciicast v2 (https://docs.asciinema.org/manual/asciicast/v2/) and
// writes it as an animated SVG.
func animate(in io.Reader, out io.Writer) error {
	events := bufio.NewScanner(in)
	events.Buffer(nil, maxEventBytes)
	if !events.Scan() {
		return errors.Join(errors.New("the recording is empty"), events.Err())
	}
	var header struct{ Version, Width int }
	if err := json.Unmarshal(events.Bytes(), &header); err != nil || header.Version != 2 {
		return fmt.Errorf("the first line of the recording is no header of an asciicast v2: %.80q", events.Text())
	}
	shown := &screen{columns: header.Width}
	var spans []span
	current := map[int]span{}
	var now float64
	for number := 2; events.Scan(); number++ {
		var kind, data string
		if err := json.Unmarshal(events.Bytes(), &[]any{&now, &kind, &data}); err != nil {
			return fmt.Errorf("line %d of the recording is no event: %w", number, err)
		}
		if kind != "o" {
			continue
		}
		shown.write(data)
		spans = append(spans, changed(shown, current, now)...)
	}
	if err := events.Err(); err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	end := now + lastScreenSeconds
	for row := range len(current) {
		s := current[row]
		s.end = end
		spans = append(spans, s)
	}
	_, err := io.WriteString(out, animation(header.Width, spans, end))
	return err
}

// changed updates the current rows, and returns the replaced content of rows.
func changed(shown *screen, current map[int]span, now float64) []span {
	var over []span
	for row := range max(len(shown.lines), len(current)) {
		var line []cell
		if row < len(shown.lines) {
			line = slices.Clone(shown.lines[row])
		}
		before, was := current[row]
		if was && slices.Equal(before.line, line) {
			continue
		}
		if was && before.begin < now && strings.TrimSpace(plain(before.line)) != "" {
			before.end = now
			over = append(over, before)
		}
		current[row] = span{row: row, line: line, begin: now}
	}
	return over
}

// animation returns an endless animation of all rows. It begins with the last screen, so that
// readers see the result first. The last screen is also what a viewer without animations shows.
func animation(columns int, spans []span, end float64) string {
	rows := 0
	for _, s := range spans {
		rows = max(rows, s.row+1)
	}
	var out strings.Builder
	begin(&out, columns, rows)
	for _, s := range spans {
		visibility := ""
		if s.end < end {
			visibility = ` visibility="hidden"`
		}
		fmt.Fprintf(&out, "<g%s>", visibility)
		if s.begin > 0 || s.end < end {
			fmt.Fprintf(&out, `<animate attributeName="visibility" calcMode="discrete" repeatCount="indefinite" begin="-%.2fs" dur="%.2fs" values="hidden;visible;hidden" keyTimes="0;%.5f;%.5f"/>`,
				end-lastScreenSeconds, end, s.begin/end, s.end/end)
		}
		writeLine(&out, s.row, s.line)
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.String()
}
