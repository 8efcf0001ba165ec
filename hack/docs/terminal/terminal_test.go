package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden picture anew")

func TestScreenShowsWhatATerminalWould(t *testing.T) {
	for _, test := range []struct {
		name, output string
		columns      int
		want         []string
	}{
		{name: "lines", output: "one\r\ntwo\r\n", want: []string{"one", "two"}},
		{name: "an empty line", output: "one\r\n\r\ntwo", want: []string{"one", "", "two"}},
		{name: "a line written over", output: "begun: 1/10\r\x1b[Kdone", want: []string{"done"}},
		{name: "the rest of a line stays", output: "12345\rab", want: []string{"ab345"}},
		{name: "a tab", output: "a\tb", want: []string{"a       b"}},
		{name: "a long line", columns: 4, output: "123456\r\nx", want: []string{"1234", "56", "x"}},
		{name: "a full line", columns: 4, output: "1234\r\nx", want: []string{"1234", "x"}},
		{name: "up, and the rest gone", output: "a\r\nb\r\nc\r\x1b[1A\x1b[Jd", want: []string{"a", "d"}},
		{name: "colours take no place", output: "\x1b[1;31mred\x1b[0m!", want: []string{"red!"}},
		{name: "titles and unknown sequences", output: "\x1b]0;title\aa\x1b[?25lb\x1b=c", want: []string{"abc"}},
		{name: "a sequence that never ends", output: "a\x1b[3", want: []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			shown := &screen{columns: test.columns}
			shown.write(test.output)
			var got []string
			for _, line := range shown.lines {
				got = append(got, plain(line))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPictureOfColours(t *testing.T) {
	got := drawn(t, "NAME   STATUS\r\n\x1b[2mdev\x1b[0m    \x1b[32mRunning\x1b[0m\r\n\x1b[1m<b>\x1b[0m & \x1b[91mc\x1b[39md\r\n", "")
	golden := filepath.Join("testdata", "colours.svg")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestPictureOfProgressThatIsWrittenOver(t *testing.T) {
	output := "\r\x1b[K[#--] 1/3 a\r\x1b[K[##-] 2/3 b\r\x1b[K[##-] 2/3 c\r\x1b[Kdone\r\n"
	got := drawn(t, output, "2/3")
	if !strings.Contains(got, "[##-] 2/3 c") || strings.Contains(got, "done") {
		t.Errorf("the picture is not that of the last line with 2/3:\n%s", got)
	}
	err := run(strings.NewReader(output), &strings.Builder{}, 0, "kubectl", "3/3")
	if err == nil || !strings.Contains(err.Error(), `"3/3"`) {
		t.Errorf("a text that was never there: %v", err)
	}
}

func drawn(t *testing.T, output, while string) string {
	t.Helper()
	var svg strings.Builder
	if err := run(strings.NewReader(output), &svg, 0, "kubectl get cws", while); err != nil {
		t.Fatal(err)
	}
	return svg.String()
}

func TestRecordingMoves(t *testing.T) {
	recording := `{"version": 2, "width": 20, "height": 5}
[0.5, "o", "$ "]
[1, "o", "ls\r\n"]
[1.5, "i", "not shown"]
[2, "o", "a b\r\n$ "]
`
	var out strings.Builder
	if err := animate(strings.NewReader(recording), &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		`<g visibility="hidden"><animate attributeName="visibility" calcMode="discrete" repeatCount="indefinite" begin="-2.00s" dur="7.00s" values="hidden;visible;hidden" keyTimes="0;0.07143;0.14286"/>`,
		`keyTimes="0;0.14286;1.00000"/><text xml:space="preserve" x="16.0" y="30" textLength="33.6" fill="#e6edf3">$ ls</text>`,
		`keyTimes="0;0.28571;1.00000"/><text xml:space="preserve" x="16.0" y="49" textLength="25.2" fill="#e6edf3">a b</text>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nis not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "not shown") {
		t.Error("what was typed is shown beside its echo")
	}
	for _, bad := range []string{"", "{}", recording + "[\n"} {
		if err := animate(strings.NewReader(bad), &out); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
