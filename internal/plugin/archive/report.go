package archive

import (
	"errors"
	"fmt"
	"io"
)

// maxNamed is the maximum number of skipped entries that are listed.
const maxNamed = 20

// Report is the result of Pack or Unpack.
type Report struct {
	// Files and Bytes count the completely copied files.
	Files int
	Bytes int64
	// Current is the file that is being copied.
	Current string
	// Progress is called after each chunk of a file, if it is not nil.
	Progress func()

	left    []error
	unnamed int
}

// leave records an entry that is not copied.
func (r *Report) leave(name string, why error) {
	if len(r.left) == maxNamed {
		r.unnamed++
		return
	}
	r.left = append(r.left, fmt.Errorf("%q was not copied: %w", name, why))
}

// Left returns an error that lists the skipped entries and the reasons, or nil if there are none.
func (r *Report) Left() error {
	if r.unnamed > 0 {
		return errors.Join(append(r.left, fmt.Errorf("and %d more were not copied", r.unnamed))...)
	}
	return errors.Join(r.left...)
}

// copy copies one file.
func (r *Report) copy(name string, to io.Writer, from io.Reader) error {
	r.Current = name
	_, err := io.Copy(to, &counted{Reader: from, report: r})
	if err == nil {
		r.Files++
		r.Current = ""
	}
	return err
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	report *Report
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.report.Bytes += int64(n)
	if c.report.Progress != nil {
		c.report.Progress()
	}
	return n, err
}
