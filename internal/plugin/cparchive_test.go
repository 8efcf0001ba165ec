package plugin

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var then = time.Date(2024, time.May, 6, 7, 8, 9, 0, time.UTC)

// tree creates files with modes and a time, and returns their directory.
func tree(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "src")
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "deep/er/secret": 0o600, "deep/dash -n'ame": 0o644, "empty": 0o640} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		text := name
		if name == "empty" {
			text = ""
		}
		if err := errors.Join(os.WriteFile(file, []byte(text), mode), os.Chmod(file, mode), os.Chtimes(file, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("../run.sh", filepath.Join(root, "deep", "link")), os.Symlink("deep", filepath.Join(root, "alias")),
		os.Chmod(filepath.Join(root, "deep", "er"), 0o500), os.Chtimes(filepath.Join(root, "deep", "er"), then, then)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "deep", "er"), 0o700) })
	return root
}

func TestThereAndBack(t *testing.T) {
	source, to := tree(t), t.TempDir()
	var packed bytes.Buffer
	sent, got := &copyReport{}, &copyReport{}
	if err := errors.Join(packFiles(&packed, source, sent), sent.Left()); err != nil {
		t.Fatal(err)
	}
	// Twice, because the second run finds existing files.
	for range 2 {
		if err := errors.Join(unpackFiles(bytes.NewReader(packed.Bytes()), to, "copy", got), got.Left()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "copy", "deep", "er"), 0o700) })
	files, size, err := measureFiles(source)
	if err != nil || files != 6 || sent.Files != files || sent.Bytes != size || got.Files != 2*files || got.Bytes != 2*size {
		t.Errorf("there are %d files of %d bytes (%v), sent %+v, received twice %+v", files, size, err, sent, got)
	}
	for _, name := range []string{"run.sh", "deep/er/secret", "deep/dash -n'ame", "empty", "deep/er"} {
		want, errWant := os.Stat(filepath.Join(source, name))
		have, errHave := os.Stat(filepath.Join(to, "copy", name))
		if err := errors.Join(errWant, errHave); err != nil {
			t.Error(err)
			continue
		}
		if have.Mode() != want.Mode() || !have.ModTime().Equal(then) || !have.IsDir() && have.Size() != want.Size() {
			t.Errorf("%s is %s of %s with %d bytes, want %s of %s with %d", name, have.Mode(), have.ModTime(), have.Size(), want.Mode(), then, want.Size())
		}
	}
	for name, want := range map[string]string{"alias": "deep", "deep/link": "../run.sh"} {
		if link, err := os.Readlink(filepath.Join(to, "copy", name)); err != nil || link != want {
			t.Errorf("%s is a link to %q (%v), want %q", name, link, err, want)
		}
	}
}

// TestDestinationStays checks that a directory that exists keeps its mode if only content is copied
// into it, in both directions.
func TestDestinationStays(t *testing.T) {
	to := t.TempDir()
	if err := os.Chmod(to, 0o750); err != nil {
		t.Fatal(err)
	}
	archive := archived(t, tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o777}, tar.Header{Typeflag: tar.TypeReg, Name: "./new", Mode: 0o600})
	if err := unpackFiles(archive, to, ".", &copyReport{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the destination has mode %s, %v", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(to, "new")); err != nil {
		t.Error(err)
	}
	for name, own := range map[string]bool{"": true, "/.": false} {
		var packed bytes.Buffer
		if err := packFiles(&packed, tree(t)+name, &copyReport{}); err != nil {
			t.Fatal(err)
		}
		header, err := tar.NewReader(&packed).Next()
		if err != nil || (header.Name == "./") != own {
			t.Errorf("the first entry of SOURCE%s is %+v, %v", name, header, err)
		}
	}
}

func TestOneFile(t *testing.T) {
	source, to := tree(t), t.TempDir()
	var packed bytes.Buffer
	if err := packFiles(&packed, filepath.Join(source, "run.sh"), &copyReport{}); err != nil {
		t.Fatal(err)
	}
	if err := unpackFiles(&packed, to, "other name", &copyReport{}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "other name")); err != nil || string(text) != "run.sh" {
		t.Errorf("the copy is %q: %v", text, err)
	}
}

// archived returns a malicious archive with these headers.
func archived(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var to bytes.Buffer
	w := tar.NewWriter(&to)
	for i := range headers {
		h := headers[i]
		text := ""
		if h.Typeflag == tar.TypeReg {
			text, h.Size = "evil", 4
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &to
}

// TestNothingOutside checks that an archive changes nothing outside of its destination, and that
// attempts are reported.
func TestNothingOutside(t *testing.T) {
	dot := tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}
	deep := tar.Header{Typeflag: tar.TypeDir, Name: "p/q", Mode: 0o755}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	link := func(kind byte, name, to string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: to, Mode: 0o777}
	}
	for name, c := range map[string]struct {
		headers []tar.Header
		says    string
	}{
		"a path up":            {[]tar.Header{dot, file("../victim")}, "leads out of the destination"},
		"a path down and up":   {[]tar.Header{dot, file("a/../../victim")}, "leads out of the destination"},
		"an absolute path":     {[]tar.Header{dot, file("/victim")}, "leads out of the destination"},
		"a link up":            {[]tar.Header{dot, link(tar.TypeSymlink, "l", "../victim")}, "outside of what is copied"},
		"an absolute link":     {[]tar.Header{dot, link(tar.TypeSymlink, "l", "/etc/passwd")}, "outside of what is copied"},
		"through a link":       {[]tar.Header{dot, link(tar.TypeSymlink, "l", ".."), file("l/victim")}, "outside of what is copied"},
		"through a known link": {[]tar.Header{dot, file("planted/victim")}, "was not copied"},
		"over a known link":    {[]tar.Header{dot, file("planted")}, ""},
		"a mode through a link": {[]tar.Header{dot, link(tar.TypeSymlink, "l", "planted"), {Typeflag: tar.TypeDir, Name: "l", Mode: 0o777}},
			"was not copied"},
		"a link up in a link": {[]tar.Header{dot, deep, link(tar.TypeSymlink, "p/q/r", "../.."), link(tar.TypeSymlink, "p/q/r/evil", "../../victim")},
			"may lead outside"},
		"a link up after a link": {[]tar.Header{dot, deep, link(tar.TypeSymlink, "p/q/r", "../.."), link(tar.TypeSymlink, "p/q/evil", "r/../../victim")}, ""},
		"a link in a link":       {[]tar.Header{dot, deep, link(tar.TypeSymlink, "p/q/r", "../.."), link(tar.TypeSymlink, "p/q/r/l", "p")}, ""},
		"a hard link to a link": {[]tar.Header{dot, deep, link(tar.TypeSymlink, "p/q/l", "../../victim"), link(tar.TypeLink, "evil", "p/q/l")},
			"not a regular file"},
		"a hard link up":     {[]tar.Header{dot, link(tar.TypeLink, "l", "../victim")}, "outside of what is copied"},
		"a hard link beside": {[]tar.Header{dot, link(tar.TypeLink, "l", "planted/victim")}, "was not copied"},
		"a lone link":        {[]tar.Header{link(tar.TypeSymlink, "x", "victim")}, "outside of what is copied"},
		"a device":           {[]tar.Header{dot, {Typeflag: tar.TypeChar, Name: "null", Mode: 0o666}}, "not a file, directory or link"},
		"one named up":       {[]tar.Header{file("../../victim")}, "was not copied"},
		"setuid":             {[]tar.Header{dot, {Typeflag: tar.TypeReg, Name: "s", Mode: 0o6755}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			around := t.TempDir()
			to := filepath.Join(around, "to")
			if err := errors.Join(os.MkdirAll(filepath.Join(to, "copy"), 0o755), os.WriteFile(filepath.Join(around, "victim"), []byte("well"), 0o600),
				os.Symlink(around, filepath.Join(to, "copy", "planted"))); err != nil {
				t.Fatal(err)
			}
			r := &copyReport{}
			err := errors.Join(unpackFiles(archived(t, c.headers...), to, "copy", r), r.Left())
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("reports %v, want %q", err, c.says)
			}
			if text, err := os.ReadFile(filepath.Join(around, "victim")); err != nil || string(text) != "well" {
				t.Errorf("a file outside is %q: %v", text, err)
			}
			if info, err := os.Stat(filepath.Join(around, "victim")); err != nil || info.Mode() != 0o600 {
				t.Errorf("a file outside has another mode: %v", err)
			}
			if found, err := os.ReadDir(around); err != nil || len(found) != 2 {
				t.Errorf("outside are %v: %v", found, err)
			}
			if info, err := os.Stat(filepath.Join(to, "copy", "s")); err == nil && info.Mode() != 0o755 {
				t.Errorf("a program that was setuid is %s", info.Mode())
			}
			expectLinksInside(t, filepath.Join(to, "copy"))
		})
	}
}

// expectLinksInside checks that no symbolic link in the copy resolves to something outside, except the
// one that was there before.
func expectLinksInside(t *testing.T, root string) {
	t.Helper()
	if err := os.Remove(filepath.Join(root, "planted")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(at string, _ fs.DirEntry, err error) error {
		if end, unresolved := filepath.EvalSymlinks(at); unresolved == nil && end != root && !strings.HasPrefix(end, root+"/") {
			t.Errorf("%s leads to %s", at, end)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCutOff checks that an incomplete file does not get its name, and that an existing file is
// kept.
func TestCutOff(t *testing.T) {
	whole := archived(t, tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeReg, Name: "first", Mode: 0o644}, tar.Header{Typeflag: tar.TypeReg, Name: "second", Mode: 0o644}).Bytes()
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, "second"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := &copyReport{}
	// Five headers and contents of 512 bytes; the last content is truncated.
	err := unpackFiles(bytes.NewReader(whole[:4*512+2]), to, ".", r)
	if err == nil || r.Files != 1 || r.Current != "second" {
		t.Errorf("a cut archive: %v, %+v", err, r)
	}
	if text, _ := os.ReadFile(filepath.Join(to, "second")); string(text) != "before" {
		t.Errorf("the file that was cut off is %q", text)
	}
	if found, _ := os.ReadDir(to); len(found) != 2 {
		t.Errorf("there are %v", found)
	}
	if err := unpackFiles(strings.NewReader(""), to, ".", r); !errors.Is(err, errEmptyArchive) {
		t.Errorf("nothing: %v", err)
	}
}

func TestUnreadable(t *testing.T) {
	source := tree(t)
	if err := os.Remove(filepath.Join(source, "empty")); err != nil {
		t.Fatal(err)
	}
	r := &copyReport{}
	// A file that is deleted between the walk and the read.
	w := tar.NewWriter(io.Discard)
	if err := r.packFile(w, filepath.Join(source, "empty"), &tar.Header{Name: "empty"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Left(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is gone: %v", err)
	}
	for range maxNamed + 5 {
		r.leave("x", errors.New("no"))
	}
	if text := r.Left().Error(); strings.Count(text, "\n") != maxNamed || !strings.HasSuffix(text, "and 6 more were not copied") {
		t.Errorf("many are reported as %s", text)
	}
	if _, _, err := measureFiles(filepath.Join(source, "none")); err == nil {
		t.Error("a source that is not there is none")
	}
}
