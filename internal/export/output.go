package export

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// Only the user who exports may read the files, because a template's source may be confidential.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// write writes the manifests to standard output, or to one file each in a folder. It replaces the
// files of an earlier export. It does not delete the files of objects that no longer exist.
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

// writeReport writes the report to the file of --report.
func (o *options) writeReport(r *report) error {
	if o.report == "" {
		return nil
	}
	if err := os.WriteFile(o.report, []byte(r.String()), fileMode); err != nil {
		return fmt.Errorf("writing --report: %w", err)
	}
	return nil
}
