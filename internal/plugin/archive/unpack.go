package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxDirectories limits the directories of an archive, because their modes and times
// are kept until their content is there.
const maxDirectories = 1_000_000

// ErrEmpty is that an archive contains nothing.
var ErrEmpty = errors.New("the archive is empty")

// unpacking is one use of Unpack.
type unpacking struct {
	*Report
	root *os.Root
	// to is the place of the archive's content below root.
	to          string
	directories []*tar.Header
}

// Unpack makes files of an archive that Pack or tar made of a directory, whose first
// entry is ".", or of one file. To is the place that the content has below the
// directory, and is made. Of a mode, the permissions are kept.
func Unpack(from io.Reader, directory, to string, r *Report) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	u := &unpacking{Report: r, root: root, to: to}
	archive := tar.NewReader(from)
	header, err := archive.Next()
	if errors.Is(err, io.EOF) {
		return ErrEmpty
	}
	if err == nil && header.Typeflag != tar.TypeDir {
		// One file, which may have another name here.
		header.Name = "."
	}
	for ; err == nil; header, err = archive.Next() {
		if err := u.entry(header, archive); err != nil {
			return err
		}
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the archive: %w", err)
	}
	// From the inside out, because what is made in a directory changes its time.
	for _, header := range slices.Backward(u.directories) {
		if err := u.finish(header.Name, header); err != nil {
			u.leave(header.Name, err)
		}
	}
	return nil
}

// entry makes what one header says. Header.Name becomes the name below root. An error
// ends the copy; what a single file does not allow is left out.
func (u *unpacking) entry(header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("the workspace sent the path %q, which leads out of the destination: nothing after it was copied", header.Name)
	}
	header.Name = filepath.Join(u.to, filepath.FromSlash(name))
	var err error
	switch header.Typeflag {
	case tar.TypeDir:
		if len(u.directories) == maxDirectories {
			return fmt.Errorf("the workspace sent more than %d directories", maxDirectories)
		}
		u.directories = append(u.directories, header)
		// Its content is written before it gets its own mode.
		if err = u.root.MkdirAll(header.Name, 0o700); err == nil {
			err = u.root.Chmod(header.Name, header.FileInfo().Mode().Perm()|0o700)
		}
	case tar.TypeReg:
		return u.file(header, content)
	case tar.TypeSymlink:
		err = u.symlink(header, name)
	case tar.TypeLink:
		err = u.link(header)
	default:
		err = fmt.Errorf("it is no file, directory or link (tar's type %q)", header.Typeflag)
	}
	if err != nil {
		u.leave(header.Name, err)
	}
	return nil
}

// file writes a file next to its place, and moves it there when it is complete.
func (u *unpacking) file(header *tar.Header, content io.Reader) error {
	if err := u.root.MkdirAll(filepath.Dir(header.Name), 0o700); err != nil {
		u.leave(header.Name, err)
		return nil
	}
	temporary := fmt.Sprintf("%s.kubectl-coder-%d", header.Name, os.Getpid())
	file, err := u.root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		u.leave(header.Name, err)
		return nil
	}
	defer func() { _ = u.root.Remove(temporary) }()
	err = u.copy(header.Name, file, content)
	if err := errors.Join(err, file.Close()); err != nil {
		// The content may be cut off, or the disk is full: the rest has no chance either.
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	err = u.finish(temporary, header)
	if err == nil {
		err = u.root.Rename(temporary, header.Name)
	}
	if err != nil {
		u.Files--
		u.leave(header.Name, err)
	}
	return nil
}

// finish sets the mode and the time.
func (u *unpacking) finish(name string, header *tar.Header) error {
	if err := u.root.Chmod(name, header.FileInfo().Mode().Perm()); err != nil {
		return err
	}
	return u.root.Chtimes(name, time.Time{}, header.ModTime)
}

// symlink makes a symbolic link, unless what it names is outside of what is copied:
// a program that writes to it later would write there.
func (u *unpacking) symlink(header *tar.Header, name string) error {
	target := path.Join(path.Dir(name), header.Linkname)
	if path.IsAbs(header.Linkname) || strings.Contains(header.Linkname, `\`) || !filepath.IsLocal(filepath.FromSlash(target)) || name == "." {
		return fmt.Errorf("it is a symbolic link to %q, outside of what is copied", header.Linkname)
	}
	if err := u.replace(header.Name); err != nil {
		return err
	}
	return u.root.Symlink(filepath.FromSlash(header.Linkname), header.Name)
}

// link makes a second name of a file of this archive.
func (u *unpacking) link(header *tar.Header) error {
	if !filepath.IsLocal(filepath.FromSlash(path.Clean(header.Linkname))) {
		return fmt.Errorf("it is a hard link to %q, outside of what is copied", header.Linkname)
	}
	if err := u.replace(header.Name); err != nil {
		return err
	}
	return u.root.Link(filepath.Join(u.to, filepath.FromSlash(path.Clean(header.Linkname))), header.Name)
}

// replace takes away what has the name already, unless it is a directory, and makes
// the directories above.
func (u *unpacking) replace(name string) error {
	if err := u.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("a directory has that name")
	}
	return u.root.Remove(name)
}
