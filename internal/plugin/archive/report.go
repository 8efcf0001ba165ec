package archive

import (
	"errors"
	"fmt"
	"io"
)

// maxNamed is how many of the entries that were left out are named.
const maxNamed = 20

// Report is what Pack or Unpack did.
type Report struct {
	// Files and Bytes are those that were copied completely.
	Files int
	Bytes int64
	// Current is the file that is being copied.
	Current string
	// Progress, if it is not nil, is called after each piece of a file.
	Progress func()

	left    []error
	unnamed int
}

// leave takes note of an entry that is not copied.
func (r *Report) leave(name string, why error) {
	if len(r.left) == maxNamed {
		r.unnamed++
		return
	}
	r.left = append(r.left, fmt.Errorf("%q was not copied: %w", name, why))
}

// Left returns what was left out and why, or nil if nothing was.
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

// counted counts what is read.
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
