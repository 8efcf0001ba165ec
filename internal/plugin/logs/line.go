package logs

import (
	"fmt"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// write writes one line with a prefix.
func (r *run) write(prefix, line string) error {
	if r.Screen {
		line = cli.Visible(line)
	}
	_, err := fmt.Fprintln(r.Out, prefix+line)
	return err
}

func trimEnd(line string) string { return strings.TrimRight(line, "\r\n") }
