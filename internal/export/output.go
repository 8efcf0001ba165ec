package export

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// Only the person who exports may read what was written: a template's source may
// hold what others must not see.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// write brings the manifests to standard output, or into a folder where each has
// a file. A file of an earlier export is replaced; one of an object that is there no
// more stays.
func (o *options) write(manifests []manifest) error {
	for i, m := range manifests {
		text, err := m.bytes()
		if err != nil {
			return err
		}
		if o.output == "-" {
			if i > 0 {
				text = append([]byte("---\n"), text...)
			}
			if _, err := o.streams.Out.Write(text); err != nil {
				return fmt.Errorf("writing to standard output: %w", err)
			}
			continue
		}
		folder := m.folder
		if o.allNamespaces {
			folder = filepath.Join(m.Metadata.Namespace, m.folder)
		}
		if err := cli.WriteBelow(o.output, folder, m.Metadata.Name+".yaml", text, folderMode, fileMode); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	return nil
}

// writeReport writes the report into the file that was named for it.
func (o *options) writeReport(r *report) error {
	if o.report == "" {
		return nil
	}
	if err := os.WriteFile(o.report, []byte(r.String()), fileMode); err != nil {
		return fmt.Errorf("writing --report: %w", err)
	}
	return nil
}
