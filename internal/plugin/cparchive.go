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
	"runtime"
	"slices"
	"strings"
	"time"
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
