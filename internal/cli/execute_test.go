package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// A command without arguments does not get those of the process.
func TestNoArguments(t *testing.T) {
	before := os.Args
	t.Cleanup(func() { os.Args = before })
	os.Args = []string{"x", "of the process"}
	var got []string
	cmd := &cobra.Command{Use: "x", RunE: func(_ *cobra.Command, args []string) error { got = args; return nil }}
	streams := genericiooptions.NewTestIOStreamsDiscard()
	if code := Execute(t.Context(), cmd, nil, streams); code != ExitOK || len(got) != 0 {
		t.Errorf("exit code %d, arguments %q", code, got)
	}
}

// Control characters in an error do not reach the terminal.
func TestErrorsOperateNoTerminal(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return errors.New("one \x1b]0;owned\a\ntwo\r\u009b2J") }}
	code := Execute(t.Context(), cmd, nil, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &out})
	if want := "x: one ]0;owned\nx: two2J\n"; code != ExitFailure || out.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, out.String(), want)
	}
}

func TestWriteBelow(t *testing.T) {
	directory, outside := filepath.Join(t.TempDir(), "new"), t.TempDir()
	if err := WriteBelow(directory, "a/b", "name.yaml", []byte("x"), 0o700, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(directory, "a", "b", "name.yaml")); err != nil || string(got) != "x" {
		t.Errorf("the file has %q (%v)", got, err)
	}
	for link, target := range map[string]string{"folder": outside, "file.yaml": filepath.Join(outside, "file.yaml")} {
		if err := os.Symlink(target, filepath.Join(directory, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range [][2]string{
		{"", "../x.yaml"}, {"", "a/x.yaml"}, {"", `..\x.yaml`}, {"", ""}, {"", ".."}, {"", ".bashrc"},
		{"..", "x.yaml"}, {"a/../../b", "x.yaml"}, {"folder", "x.yaml"}, {"", "file.yaml"},
	} {
		if err := WriteBelow(directory, at[0], at[1], []byte("evil"), 0o700, 0o600); err == nil {
			t.Errorf("%q is written into %q", at[1], at[0])
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside are %v (%v)", entries, err)
	}
}
