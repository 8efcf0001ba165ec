package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tree is the file system of one layer.
type tree struct {
	entries map[string]entry
}

type entry struct {
	mode   int64
	kind   byte   // tar.TypeDir, tar.TypeReg or tar.TypeSymlink
	source string // the file that holds the content; empty for text
	text   []byte
	target string
}

func newTree() *tree { return &tree{entries: map[string]entry{}} }

// put adds an entry and its parent directories.
func (t *tree) put(p string, e entry) error {
	p = path.Clean("/" + p)[1:]
	if p == "" {
		return nil
	}
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if _, ok := t.entries[d]; !ok {
			t.entries[d] = entry{mode: 0o755, kind: tar.TypeDir}
		}
	}
	if old, ok := t.entries[p]; ok && old.kind != e.kind {
		return fmt.Errorf("/%s is given twice, once as a directory and once not", p)
	}
	t.entries[p] = e
	return nil
}

func (t *tree) addDir(arg string) error {
	p, mode, err := pathAndMode(arg, 0o755)
	if err != nil {
		return err
	}
	return t.put(p, entry{mode: mode, kind: tar.TypeDir})
}

func (t *tree) addText(arg string) error {
	p, content, ok := strings.Cut(arg, "=")
	if !ok {
		return fmt.Errorf("-text %q must be path=content", arg)
	}
	return t.put(p, entry{mode: 0o644, kind: tar.TypeReg, text: []byte(strings.ReplaceAll(content, `\n`, "\n"))})
}

func (t *tree) addLink(arg string) error {
	p, target, ok := strings.Cut(arg, "=")
	if !ok {
		return fmt.Errorf("-symlink %q must be path=target", arg)
	}
	return t.put(p, entry{mode: 0o777, kind: tar.TypeSymlink, target: target})
}

// addSource adds a file or a whole directory of this machine: SOURCE:DESTINATION[:MODE].
func (t *tree) addSource(arg string) error {
	source, rest, ok := strings.Cut(arg, ":")
	if !ok {
		return fmt.Errorf("%q must be SOURCE:DESTINATION[:MODE]", arg)
	}
	dest, mode, err := pathAndMode(rest, -1)
	if err != nil {
		return err
	}
	// A source may be a symbolic link, as shared libraries often are. Its target is added. Links
	// inside a directory are added as links.
	source, err = filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	return filepath.WalkDir(source, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{mode: portableMode(info.Mode()), kind: tar.TypeReg, source: p}
		switch {
		case d.IsDir():
			e = entry{mode: 0o755, kind: tar.TypeDir}
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			e = entry{mode: 0o777, kind: tar.TypeSymlink, target: target}
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory nor a symbolic link", p)
		case mode >= 0:
			e.mode = mode
		}
		return t.put(path.Join(dest, filepath.ToSlash(rel)), e)
	})
}

// portableMode returns the part of a mode that does not depend on the umask.
func portableMode(m fs.FileMode) int64 {
	if m&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func pathAndMode(arg string, otherwise int64) (string, int64, error) {
	p, m, ok := strings.Cut(arg, ":")
	if !ok {
		return p, otherwise, nil
	}
	mode, err := strconv.ParseInt(m, 8, 64)
	if err != nil || mode < 0 || mode > 0o7777 {
		return "", 0, fmt.Errorf("the mode of %q must be octal, such as 755", arg)
	}
	return p, mode, nil
}

// write writes the tree as a tar. The same content results in the same bytes.
func (t *tree) write(w io.Writer, when time.Time) error {
	tw := tar.NewWriter(w)
	for _, n := range slices.Sorted(maps.Keys(t.entries)) {
		if err := t.entries[n].write(tw, n, when); err != nil {
			return fmt.Errorf("/%s: %w", n, err)
		}
	}
	return tw.Close()
}

func (e entry) write(tw *tar.Writer, name string, when time.Time) error {
	h := &tar.Header{Name: name, Mode: e.mode, Typeflag: e.kind, Linkname: e.target, ModTime: when, Format: tar.FormatPAX}
	if e.kind == tar.TypeDir {
		h.Name += "/"
	}
	if e.kind != tar.TypeReg {
		return tw.WriteHeader(h)
	}
	if e.source == "" {
		h.Size = int64(len(e.text))
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		_, err := tw.Write(e.text)
		return err
	}
	f, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h.Size = info.Size()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}
