package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// archive holds the collected files in memory until all secrets that must be redacted are
// known. Its size is limited.
type archive struct {
	files map[string]content
	// budget is the number of bytes that may still be added.
	budget int64
}

// content is one file: a text, or a document. A document is converted to YAML after
// redaction, because YAML wraps long lines, which could split a secret.
type content struct {
	text     string
	document any
}

func newArchive(most int64) *archive { return &archive{files: map[string]content{}, budget: most} }

// addText adds a text. It returns an error if the archive is full.
func (a *archive) addText(name, text string) error {
	return a.add(name, content{text: text}, len(text))
}

// addDocument adds a document, which must be encodable as JSON.
func (a *archive) addDocument(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		return err
	}
	return a.add(name, content{document: document}, len(data))
}

func (a *archive) add(name string, c content, size int) error {
	if int64(size) > a.budget {
		return fmt.Errorf("it has %d bytes, and only %d are left of --max-size", size, max(0, a.budget))
	}
	a.budget -= int64(size)
	a.files[name] = c
	return nil
}

// without returns the content of a file without secrets.
func (c content) without(redactor *redaction.Redactor) (string, error) {
	if c.document == nil {
		return redactor.Text(c.text), nil
	}
	text, err := yaml.Marshal(redactor.Document(c.document))
	return redactor.Known(string(text)), err
}

// write writes the archive without secrets. The names of files are redacted too. The
// entries are sorted, in a folder with the name of the archive.
func (a *archive) write(to io.Writer, folder string, at time.Time, redactor *redaction.Redactor) error {
	compressed := gzip.NewWriter(to)
	files := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		text, err := a.files[name].without(redactor)
		if err != nil {
			return fmt.Errorf("writing %s as YAML: %w", name, err)
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, redactor.Text(name)), Size: int64(len(text)), Mode: 0o600, ModTime: at,
		}
		if err := files.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s into the archive: %w", name, err)
		}
		if _, err := io.WriteString(files, text); err != nil {
			return fmt.Errorf("writing %s into the archive: %w", name, err)
		}
	}
	if err := files.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}
