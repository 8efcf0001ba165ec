package plugin

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

const (
	// maxBytes is the API's limit for an archive.
	maxBytes = 20 << 20
	// maxInlineBytes is the limit of the text in spec.files.
	maxInlineBytes = 2 << 20
)

// templateFiles is the content of a template by path, with slashes.
type templateFiles map[string][]byte

// readTemplateFiles reads a directory, one file, or an archive whose name ends with .tar.
func readTemplateFiles(from string) (templateFiles, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, cli.Usage("%v", err)
	}
	var found templateFiles
	switch {
	case info.IsDir():
		found, err = readTemplateDirectory(from)
	case strings.HasSuffix(from, ".tar"):
		archive, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer func() { _ = archive.Close() }()
		if found, err = readTemplateArchive(archive); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
	default:
		var text []byte
		if text, err = readAtMost(from, maxBytes+1); len(text) > maxBytes {
			err = templateTooLarge(from)
		}
		found = templateFiles{filepath.Base(from): text}
	}
	if err != nil {
		return nil, err
	}
	for name := range found {
		if !strings.Contains(name, "/") && (strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")) {
			return found, nil
		}
	}
	// For example a wrong directory.
	return found, cli.Usage("%s is not a template: it has no file that ends with .tf", from)
}

// readTemplateDirectory leaves out what Terraform, Git or the operating system creates.
func readTemplateDirectory(root string) (templateFiles, error) {
	found, size := templateFiles{}, 0
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case at != root && entry.IsDir() && (name == ".git" || name == ".terraform"):
			return fs.SkipDir
		case entry.IsDir(), name == ".git", strings.HasSuffix(name, ".tfstate"), strings.Contains(name, ".tfstate."),
			strings.HasSuffix(name, ".tfplan"), name == "crash.log", name == ".DS_Store":
			// In a worktree or a submodule, .git is a file.
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file (%s): replace it by a copy of the file that it refers to", at, entry.Type())
		}
		relative, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		text, err := readAtMost(at, maxBytes-size+1)
		if err != nil {
			return err
		}
		if size += len(text); size > maxBytes {
			return templateTooLarge(root)
		}
		found[filepath.ToSlash(relative)] = text
		return nil
	})
	return found, err
}

// readAtMost reads a file, or only the first most bytes of it.
func readAtMost(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, int64(most)))
}

func templateTooLarge(from string) error {
	return fmt.Errorf("%s has more than %d MiB, which is the most that a template can have", from, maxBytes>>20)
}

// ofGit reports whether Git would treat a path as part of its own directory. Files there can
// configure programs that Git runs, so they are not accepted from a cluster. Some file systems
// support alternative names for it.
func ofGit(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		part = strings.TrimRight(part, ". ")
		return strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1")
	})
}

// readTemplateArchive reads the regular files of a tar archive, except those of Git. A path that
// leads out of the archive is an error.
func readTemplateArchive(from io.Reader) (templateFiles, error) {
	found, archive := templateFiles{}, tar.NewReader(io.LimitReader(from, 2*maxBytes))
	size := int64(0)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		name := path.Clean(header.Name)
		if header.Typeflag != tar.TypeReg || ofGit(name) {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("the archive contains the path %q, which leads out of the archive", header.Name)
		}
		// A sparse file of any size needs only a few bytes in the archive.
		if header.Size > maxBytes-size {
			return nil, templateTooLarge("the archive")
		}
		size += header.Size
		text, err := io.ReadAll(archive)
		if err != nil {
			return nil, fmt.Errorf("reading %s in the archive: %w", name, err)
		}
		found[name] = text
	}
}

// inline returns the files for spec.files. It returns false if they are not all text or are too
// large.
func (f templateFiles) inline() (map[string]string, bool) {
	out, size := map[string]string{}, 0
	for name, content := range f {
		if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
			return nil, false
		}
		size += len(content)
		out[name] = string(content)
	}
	return out, size <= maxInlineBytes
}

// archive packs the files. Equal files result in equal bytes.
func (f templateFiles) archive() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(f[name])), Typeflag: tar.TypeReg}); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
		if _, err := w.Write(f[name]); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (f templateFiles) equal(other templateFiles) bool { return maps.EqualFunc(f, other, bytes.Equal) }

// write writes the files below a directory. It never follows a link out of it.
func (f templateFiles) write(into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		local := filepath.FromSlash(name)
		if directory := filepath.Dir(local); directory != "." {
			if err := root.MkdirAll(directory, 0o755); err != nil {
				return fmt.Errorf("writing %s: %w", name, err)
			}
		}
		if err := root.WriteFile(local, f[name], 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
