package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Control characters in an error do not reach the terminal.
func TestErrorsOperateNoTerminal(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return errors.New("one \x1b]0;owned\a\ntwo\r\u009b2J") }}
	code := Execute(t.Context(), cmd, nil, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &out})
	if want := "x: one ]0;owned\nx: two2J\n"; code != ExitFailure || out.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, out.String(), want)
	}
}
