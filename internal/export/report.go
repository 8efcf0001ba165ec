package export

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// report is the information for the user besides the manifests. Texts from Coder are cleaned of
// terminal control sequences.
type report struct {
	// leftOut are requested objects and fields that are not in the manifests.
	leftOut []string
	// notes are differences to expect in another Coder.
	notes []string
}

func (r *report) leave(format string, args ...any) {
	r.leftOut = append(r.leftOut, cli.Clean(fmt.Sprintf(format, args...)))
}

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, cli.Clean(fmt.Sprintf(format, args...)))
}

// String returns the report as lines.
func (r *report) String() string {
	var b strings.Builder
	for _, line := range r.leftOut {
		fmt.Fprintf(&b, "left out: %s\n", line)
	}
	for _, line := range r.notes {
		fmt.Fprintf(&b, "note: %s\n", line)
	}
	return b.String()
}

// err returns an error if something was left out.
func (r *report) err(exported int) error {
	switch {
	case len(r.leftOut) == 0:
		return nil
	case exported == 0:
		return errors.New("nothing was exported: " + strings.Join(r.leftOut, "\n"))
	}
	return &cli.PartialError{Err: fmt.Errorf("%d manifests were exported; %d things were left out, see above", exported, len(r.leftOut))}
}
