package plugin

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

// maxDirectories limits the number of directories, because their modes and times are kept in memory
// until their content is written.
const maxDirectories = 1_000_000

// unpackedDirectory is a directory whose mode and time are set at the end.
type unpackedDirectory struct {
	name     string
	mode     fs.FileMode
	modified time.Time
}

// errEmptyArchive is returned for an archive without entries.
var errEmptyArchive = errors.New("the archive is empty")

// unpacking is the state of one call of unpackFiles.
type unpacking struct {
	*copyReport
	root *os.Root
	// to is the destination of the archive's content, relative to root. exists reports that it is older
	// than the copy, so that its mode and time are kept.
	to          string
	exists      bool
	directories []unpackedDirectory
}

// unpackFiles extracts an archive of a directory, whose first entry is ".", or of one file. to is the
// destination relative to directory, and is created. Only the permission bits of a mode are kept.
func unpackFiles(from io.Reader, directory, to string, r *copyReport) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	_, err = root.Stat(to)
	u := &unpacking{copyReport: r, root: root, to: to, exists: err == nil}
	archive := tar.NewReader(from)
	header, err := archive.Next()
	if errors.Is(err, io.EOF) {
		return errEmptyArchive
	}
	if err == nil && header.Typeflag != tar.TypeDir {
		// A single file may get another name.
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
	// Innermost first, because creating an entry in a directory changes the directory's time.
	for _, d := range slices.Backward(u.directories) {
		if err := u.finish(d.name, d.mode, d.modified); err != nil {
			u.leave(d.name, err)
		}
	}
	return nil
}

// entry extracts one entry. It changes header.Name to the name relative to root. An error ends the
// copy. A failure of a single entry is recorded in the report.
func (u *unpacking) entry(header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("the workspace sent the path %q, which leads out of the destination: nothing after it was copied", header.Name)
	}
	header.Name = filepath.Join(u.to, filepath.FromSlash(name))
	var err error
	switch header.Typeflag {
	case tar.TypeDir:
		if name == "." && u.exists {
			return nil
		}
		if len(u.directories) == maxDirectories {
			return fmt.Errorf("the workspace sent more than %d directories", maxDirectories)
		}
		mode := header.FileInfo().Mode()
		u.directories = append(u.directories, unpackedDirectory{header.Name, mode, header.ModTime})
		// Keep the directory writable until its content is written.
		if err = u.root.MkdirAll(header.Name, 0o700); err == nil {
			err = u.root.Chmod(header.Name, mode.Perm()|0o700)
		}
	case tar.TypeReg:
		return u.file(header, content)
	case tar.TypeSymlink:
		err = u.symlink(header, name)
	case tar.TypeLink:
		err = u.link(header)
	default:
		err = fmt.Errorf("it is not a file, directory or link (tar's type %q)", header.Typeflag)
	}
	switch {
	case err != nil:
		u.leave(header.Name, err)
	case header.Typeflag != tar.TypeDir:
		u.Files++
	}
	return nil
}

// file writes to a temporary file in the same directory, and renames it when it is complete.
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
		// The archive is incomplete, or the disk is full, so the remaining files would fail too.
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	err = u.finish(temporary, header.FileInfo().Mode(), header.ModTime)
	if err == nil {
		err = u.root.Rename(temporary, header.Name)
	}
	if err != nil {
		u.Files--
		u.leave(header.Name, err)
	}
	return nil
}

// finish sets the permission bits of the mode, and the time.
func (u *unpacking) finish(name string, mode fs.FileMode, modified time.Time) error {
	if err := u.root.Chmod(name, mode.Perm()); err != nil {
		return err
	}
	return u.root.Chtimes(name, time.Time{}, modified)
}

// symlink creates a symbolic link. A link whose target is outside of the copied tree is refused,
// because a program that writes to the link later would write there.
func (u *unpacking) symlink(header *tar.Header, name string) error {
	// Without x/.. the target goes up only through the link's own parent directories.
	target := path.Clean(header.Linkname)
	if path.IsAbs(target) || strings.Contains(target, `\`) || !filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(name), target))) || name == "." {
		return fmt.Errorf("it is a symbolic link to %q, outside of what is copied", header.Linkname)
	}
	for parent := path.Dir(name); parent != "." && strings.HasPrefix(target, ".."); parent = path.Dir(parent) {
		info, err := u.root.Lstat(filepath.Join(u.to, filepath.FromSlash(parent)))
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("it is a symbolic link to %q in %s, which is a symbolic link too, so it may lead outside of what is copied",
				header.Linkname, parent)
		}
	}
	if err := u.replace(header.Name); err != nil {
		return err
	}
	return u.root.Symlink(filepath.FromSlash(target), header.Name)
}

// link creates a hard link to a file of this archive. A hard link to a symbolic link is refused,
// because the target is different in another directory.
func (u *unpacking) link(header *tar.Header) error {
	target := filepath.FromSlash(path.Clean(header.Linkname))
	if !filepath.IsLocal(target) {
		return fmt.Errorf("it is a hard link to %q, outside of what is copied", header.Linkname)
	}
	target = filepath.Join(u.to, target)
	info, err := u.root.Lstat(target)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is a hard link to %q, which is not a regular file", header.Linkname)
	}
	if err := u.replace(header.Name); err != nil {
		return err
	}
	return u.root.Link(target, header.Name)
}

// replace removes an existing entry with the name, unless it is a directory, and creates the parent
// directories.
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
