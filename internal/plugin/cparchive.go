package plugin

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// measureFiles returns the number of files and symbolic links that packFiles will copy, and the size of
// the files.
func measureFiles(source string) (files int, bytes int64, err error) {
	err = walk(source, func(_, _ string, info fs.FileInfo, err error) error {
		if err == nil && info.Mode()&^fs.ModeSymlink&fs.ModeType == 0 {
			files++
			if info.Mode().IsRegular() {
				bytes += info.Size()
			}
		}
		return nil
	})
	return files, bytes, err
}

// packFiles writes a directory as an archive with names relative to the directory, or a file as an
// archive with one entry, which is named after source. Symbolic links are packed as links, except
// source itself. Entries that cannot be read, or are not a file, directory or link, are skipped. The
// directory itself is left out if only its content is copied, because tar would change the mode of
// the destination.
func packFiles(to io.Writer, source string, r *copyReport) error {
	copied, err := nameOf(source)
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	err = walk(source, func(at, name string, info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			r.leave(at, err)
			return nil
		case name == "." && copied == ".":
			return nil
		}
		mode := info.Mode().Perm()
		if runtime.GOOS == "windows" {
			// Go reports that everyone may write.
			mode &^= 0o022
		}
		header := &tar.Header{Name: name, Mode: int64(mode), ModTime: info.ModTime()}
		switch {
		case info.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
		case info.Mode().IsRegular():
			return r.packFile(w, at, header)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(at)
			if err != nil {
				r.leave(at, err)
				return nil
			}
			header.Typeflag, header.Linkname = tar.TypeSymlink, filepath.ToSlash(link)
			r.Files++
		default:
			r.leave(at, fmt.Errorf("it is not a file, directory or symbolic link (%s)", info.Mode().Type()))
			return nil
		}
		return w.WriteHeader(header)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// walk calls do for source and everything below it. name is the name in the archive, with slashes.
func walk(source string, do func(at, name string, info fs.FileInfo, err error) error) error {
	root, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if entry == nil {
			return err
		}
		name, relErr := filepath.Rel(root, at)
		if relErr != nil {
			return relErr
		}
		info, infoErr := entry.Info()
		if name == "." && !entry.IsDir() {
			name = filepath.Base(source)
		}
		return do(at, filepath.ToSlash(name), info, errors.Join(err, infoErr))
	})
}

func (r *copyReport) packFile(w *tar.Writer, at string, header *tar.Header) error {
	file, err := os.Open(at)
	if err != nil {
		r.leave(at, err)
		return nil
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		r.leave(at, err)
		return nil
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	// Data that was appended in the meantime is not copied.
	if err := r.copy(at, w, io.LimitReader(file, header.Size)); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("%s became shorter while it was copied: %w", at, err)
	}
	return nil
}

// maxNamed is the maximum number of skipped entries that are listed.
const maxNamed = 20

// copyReport is the result of packFiles or unpackFiles.
type copyReport struct {
	// Files counts the completely copied files and links. Bytes counts all copied bytes.
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
func (r *copyReport) leave(name string, why error) {
	if len(r.left) == maxNamed {
		r.unnamed++
		return
	}
	r.left = append(r.left, fmt.Errorf("%q was not copied: %w", name, why))
}

// Left returns an error that lists the skipped entries and the reasons, or nil if there are none.
func (r *copyReport) Left() error {
	if r.unnamed > 0 {
		return errors.Join(append(r.left, fmt.Errorf("and %d more were not copied", r.unnamed))...)
	}
	return errors.Join(r.left...)
}

func (r *copyReport) copy(name string, to io.Writer, from io.Reader) error {
	r.Current = name
	_, err := io.Copy(to, &counted{Reader: from, report: r})
	if err == nil {
		r.Files++
		r.Current = ""
	}
	return err
}

type counted struct {
	io.Reader
	report *copyReport
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.report.Bytes += int64(n)
	if c.report.Progress != nil {
		c.report.Progress()
	}
	return n, err
}
