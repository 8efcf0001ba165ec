package coderd_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestPackFilesIsDeterministic(t *testing.T) {
	files := map[string]string{"main.tf": "a", "b/c/d.txt": "b", "b/a.txt": "ü", "z.txt": "", "A": "1"}
	first, err := coderd.PackFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := coderd.PackFiles(files, nil)
		if err != nil || !bytes.Equal(first, again) {
			t.Fatalf("the same files give other bytes, %v", err)
		}
	}
	other, err := coderd.PackFiles(map[string]string{"main.tf": "b"}, nil)
	if err != nil || bytes.Equal(first, other) {
		t.Errorf("other files give the same bytes, %v", err)
	}
	reader, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range reader.File {
		got = append(got, fmt.Sprintf("%s %s", f.Mode(), f.Name))
	}
	want := []string{"-rw-r--r-- A", "drwxr-xr-x b/", "-rw-r--r-- b/a.txt", "drwxr-xr-x b/c/", "-rw-r--r-- b/c/d.txt", "-rw-r--r-- main.tf", "-rw-r--r-- z.txt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestPackFilesNamesTheFileThatIsWrong(t *testing.T) {
	large := strings.Repeat("x", coderd.MaxFileBytes+1)
	long, deep := strings.Repeat("a/", 32<<10)+"a", strings.Repeat("a/", 33)+"a"
	many := map[string]string{}
	for i := range coderd.MaxFiles + 1 {
		many[fmt.Sprintf("f%d", i)] = ""
	}
	heavy := map[string]string{}
	for i := range 21 {
		heavy[fmt.Sprintf("f%d", i)] = large[:coderd.MaxFileBytes]
	}
	for _, test := range []struct {
		name   string
		files  map[string]string
		fields []string
		detail string
	}{
		{"empty path", map[string]string{"": "x"}, []string{"files[]"}, "must not be empty"},
		{"absolute", map[string]string{"/etc/passwd": "x"}, []string{"files[/etc/passwd]"}, "must be relative"},
		{"out of the archive", map[string]string{"a/../../b": "x"}, []string{"files[a/../../b]"}, `must not contain ".."`},
		{"dots that stay inside", map[string]string{"a/../b": "x"}, []string{"files[a/../b]"}, `must not contain ".."`},
		{"backslash", map[string]string{`a\b`: "x"}, []string{`files[a\b]`}, "must not contain a backslash"},
		{"folder", map[string]string{"a/": "x"}, []string{"files[a/]"}, "must name a file"},
		{"the archive itself", map[string]string{".": "x"}, []string{"files[.]"}, "must name a file"},
		{"control character", map[string]string{"a\x00": "x"}, []string{"files[a\x00]"}, "without control characters"},
		{"path that is no text", map[string]string{"\xff": "x"}, []string{"files[\xff]"}, "UTF-8"},
		{"long path", map[string]string{long: "x"}, []string{"files[" + long + "]"}, "the path has more than 1024 bytes"},
		{"deep path", map[string]string{deep: "x"}, []string{"files[" + deep + "]"}, "the path has more than 32 folders"},
		{"content that is no text", map[string]string{"a": "\xff"}, []string{"files[a]"}, "must be UTF-8 text"},
		{"not normalized", map[string]string{"./a": "x", "a": "x"}, []string{"files[./a]"}, `must be written as "a"`},
		{"not normalized below a folder", map[string]string{"a//b/./c": "x"}, []string{"files[a//b/./c]"}, `must be written as "a/b/c"`},
		{"file in a file", map[string]string{"a": "x", "a/b": "y"}, []string{"files[a/b]"}, `is below "a"`},
		{"large", map[string]string{"a": large}, []string{"files[a]"}, "2 MiB"},
		{"many", many, []string{"files"}, "2001 files"},
		{"heavy", heavy, []string{"files"}, "40 MiB"},
		{"several", map[string]string{"/a": "x", "/b": "y"}, []string{"files[/a]", "files[/b]"}, "must be relative"},
	} {
		t.Run(test.name, func(t *testing.T) {
			packed, err := coderd.PackFiles(test.files, nil)
			var e *coderd.Error
			if !errors.As(err, &e) || packed != nil {
				t.Fatalf("%d bytes, %v; want an *Error", len(packed), err)
			}
			if e.StatusCode != http.StatusUnprocessableEntity || !coderd.IsInvalid(err) {
				t.Errorf("status %d", e.StatusCode)
			}
			var fields []string
			for _, f := range e.Fields {
				fields = append(fields, f.Field)
				if !strings.Contains(f.Detail, test.detail) {
					t.Errorf("%s: %q, want %q", f.Field, f.Detail, test.detail)
				}
			}
			if diff := cmp.Diff(test.fields, fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArchiveKeepsWhatIsNotText(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	const image = "\x89PNG\x00\xff"
	base, err := client.DownloadArchive(t.Context(), server.AddFile(map[string]string{
		"main.tf": "old", "gone.txt": "old", "img/logo.png": image, "img/replaced.png": image, "../evil": "x",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"main.tf": "old", "gone.txt": "old"}, base.TextFiles()); diff != "" {
		t.Errorf("text files (-want +got):\n%s", diff)
	}
	packed, err := coderd.PackFiles(map[string]string{"main.tf": "new", "img/replaced.png": "now text"}, base)
	if err != nil {
		t.Fatal(err)
	}
	id, err := client.UploadArchive(t.Context(), packed)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := client.DownloadArchive(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"main.tf": "new", "img/replaced.png": "now text"}, merged.TextFiles()); diff != "" {
		t.Errorf("text files (-want +got):\n%s", diff)
	}
	if s := merged.Summary(); s.Files != 3 {
		t.Errorf("%d files, want one that is not text: %+v", s.Files, s)
	}
}

func TestTextFilesMayBeChanged(t *testing.T) {
	var none *coderd.Archive
	none.TextFiles()["a"] = "b"
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	archive, err := client.DownloadArchive(t.Context(), server.AddFile(map[string]string{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	archive.TextFiles()["a"] = "changed"
	if got := archive.TextFiles()["a"]; got != "x" {
		t.Errorf("the archive holds %q", got)
	}
}
