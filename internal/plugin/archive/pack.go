package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Measure returns the number and the total size of the regular files that Pack will copy.
func Measure(source string) (files int, bytes int64, err error) {
	err = walk(source, func(_, _ string, info fs.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			files++
			bytes += info.Size()
		}
		return nil
	})
	return files, bytes, err
}

// Pack writes a directory as an archive with names relative to the directory, or a file as an
// archive with one entry. Symbolic links are packed as links, except source itself. Entries that
// cannot be read, or are not a file, directory or link, are skipped.
func Pack(to io.Writer, source string, r *Report) error {
	w := tar.NewWriter(to)
	err := walk(source, func(at, name string, info fs.FileInfo, err error) error {
		if err != nil {
			r.leave(at, err)
			return nil
		}
		return r.pack(w, at, name, info)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// walk calls do for source and everything below it. name is the name in the archive, with slashes.
func walk(source string, do func(at, name string, info fs.FileInfo, err error) error) error {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	return filepath.WalkDir(source, func(at string, entry fs.DirEntry, err error) error {
		if entry == nil {
			return err
		}
		name, relErr := filepath.Rel(source, at)
		if relErr != nil {
			return relErr
		}
		info, infoErr := entry.Info()
		if name == "." && !entry.IsDir() {
			name = entry.Name()
		}
		return do(at, filepath.ToSlash(name), info, errors.Join(err, infoErr))
	})
}

func (r *Report) pack(w *tar.Writer, at, name string, info fs.FileInfo) error {
	header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
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
	default:
		r.leave(at, fmt.Errorf("it is no file, directory or symbolic link (%s)", info.Mode().Type()))
		return nil
	}
	return w.WriteHeader(header)
}

func (r *Report) packFile(w *tar.Writer, at string, header *tar.Header) error {
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
