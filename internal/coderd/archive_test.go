package coderd

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// entry is one entry of an archive.
type entry struct {
	name, content string
	kind          byte
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: 0o644, Typeflag: e.kind, Size: int64(len(e.content))}
		if e.kind == 0 {
			header.Typeflag = tar.TypeReg
		}
		if header.Typeflag == tar.TypeSymlink || header.Typeflag == tar.TypeLink {
			header.Size, header.Linkname = 0, e.content
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Size > 0 {
			if _, err := io.WriteString(w, e.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestSpeed) })
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.content == "" {
			header.Method = zip.Store // Creating a compressor for each entry would be slow.
		}
		if e.kind == tar.TypeSymlink {
			header.SetMode(fs.ModeSymlink | 0o777)
		}
		file, err := w.CreateHeader(header)
		if err == nil {
			_, err = io.WriteString(file, e.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// all reads an archive and keeps everything.
var all = unpacking{bytes: maxUnpackedBytes, text: maxUnpackedBytes, binary: true}

var readAs = map[string]func(data []byte, how unpacking) (*Archive, error){
	"tar": func(data []byte, how unpacking) (*Archive, error) { return readTar(bytes.NewReader(data), how) },
	"zip": readZip,
}

// TestArchivesOfStrangers reads the same entries as tar and as zip. Unusable entries of an archive
// from Coder are skipped; an archive from a user with such entries is refused.
func TestArchivesOfStrangers(t *testing.T) {
	kubetest.SkipWithRace(t)
	bomb := strings.Repeat("\x00", 11<<20)
	for name, c := range map[string]struct {
		entries []entry
		text    map[string]string
		binary  []string
		// refused is the error for an archive from a user, unreadable the error for any archive.
		refused, unreadable string
		// tooMuch is the error for an archive from a user that exceeds a limit.
		tooMuch string
	}{
		"plain":        {entries: []entry{{name: "main.tf", content: "a"}, {name: "b/", kind: tar.TypeDir}, {name: "b/logo.png", content: "\xff"}}, text: map[string]string{"main.tf": "a"}, binary: []string{"b/logo.png"}},
		"dots":         {entries: []entry{{name: "./a.tf", content: "a"}}, text: map[string]string{"a.tf": "a"}},
		"leads out":    {entries: []entry{{name: "../a", content: "a"}, {name: "b", content: "b"}}, text: map[string]string{"b": "b"}, refused: `must not contain ".."`},
		"absolute":     {entries: []entry{{name: "/etc/passwd", content: "a"}, {name: "b", content: "b"}}, text: map[string]string{"b": "b"}, refused: "must be relative"},
		"backslash":    {entries: []entry{{name: `..\a`, content: "a"}, {name: "b", content: "b"}}, text: map[string]string{"b": "b"}, refused: "backslash"},
		"link":         {entries: []entry{{name: "a", content: "/etc/passwd", kind: tar.TypeSymlink}, {name: "b", content: "b"}}, text: map[string]string{"b": "b"}, refused: "links and devices"},
		"name no text": {entries: []entry{{name: "a\xff", content: "a"}, {name: "b", content: "b"}}, text: map[string]string{"b": "b"}, refused: "UTF-8"},
		"twice":        {entries: []entry{{name: "a", content: "first"}, {name: "./a", content: "second"}}, text: map[string]string{"a": "second"}},
		"turns binary": {entries: []entry{{name: "a", content: "text"}, {name: "a", content: "\xff"}}, text: map[string]string{}, binary: []string{"a"}},
		"turns text":   {entries: []entry{{name: "a", content: "\xff"}, {name: "a", content: "text"}}, text: map[string]string{"a": "text"}},
		"nothing":      {text: map[string]string{}, refused: "no file in it"},
		"bomb": {
			entries:    []entry{{name: "0", content: bomb}, {name: "1", content: bomb}, {name: "2", content: bomb}, {name: "3", content: bomb}, {name: "4", content: bomb}, {name: "5", content: bomb}, {name: "6", content: bomb}, {name: "7", content: bomb}, {name: "8", content: bomb}, {name: "9", content: bomb}},
			unreadable: `more than 100 MiB together, "9" among them`, tooMuch: `more than 40 MiB together, "3" among them`,
		},
	} {
		for form, data := range map[string][]byte{"tar": tarOf(t, c.entries...), "zip": zipOf(t, c.entries...)} {
			t.Run(name+"/"+form, func(t *testing.T) {
				archive, err := readAs[form](data, all)
				if c.unreadable != "" {
					mustSay(t, err, c.unreadable)
				} else if err != nil {
					t.Fatal(err)
				} else if diff := cmp.Diff(c.text, archive.TextFiles()) + cmp.Diff(c.binary, binaryFiles(archive), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				given, err := ReadArchive(data)
				if says := c.refused + c.tooMuch; says != "" {
					mustSay(t, err, says)
					if IsArchiveTooLarge(err) != (c.tooMuch != "") || !IsInvalid(err) || given != nil {
						t.Errorf("%v, %v", given, err)
					}
				} else if diff := cmp.Diff(c.text, given.TextFiles()); err != nil || diff != "" {
					t.Errorf("%v, (-want +got):\n%s", err, diff)
				}
			})
		}
	}
}

func mustSay(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want %q", err, says)
	}
}

func TestArchiveOfManyEntries(t *testing.T) {
	kubetest.SkipWithRace(t)
	entries := make([]entry, maxEntries+1)
	for i := range entries {
		entries[i] = entry{name: fmt.Sprintf("d%d/", i), kind: tar.TypeDir}
	}
	_, err := readTar(bytes.NewReader(tarOf(t, entries...)), all)
	mustSay(t, err, "more than 20000 entries")
	if _, err := ReadArchive(zipOf(t, entries...)); !IsArchiveTooLarge(err) {
		t.Errorf("%v", err)
	}
}

func TestReadArchiveRefusesHardLinksAndDevices(t *testing.T) {
	for _, kind := range []byte{tar.TypeLink, tar.TypeFifo, tar.TypeChar, tar.TypeBlock} {
		_, err := ReadArchive(tarOf(t, entry{name: "a", content: "x"}, entry{name: "b", kind: kind}))
		mustSay(t, err, `"b" is neither a file nor a folder`)
	}
}

func TestSummary(t *testing.T) {
	var none *Archive
	if got := none.Summary(); got != (ArchiveSummary{}) {
		t.Errorf("%+v", got)
	}
	archive, err := ReadArchive(tarOf(t, entry{name: "b", content: "12"}, entry{name: "a", content: "12"}, entry{name: "c", content: "\xff"}))
	if err != nil {
		t.Fatal(err)
	}
	want := ArchiveSummary{Files: 3, TextFiles: 2, Bytes: 5, TextBytes: 4, Largest: "a", LargestBytes: 2}
	if got := archive.Summary(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestWhatTakesThePlaceOfABinaryFile: a path can be either a file or a folder.
func TestWhatTakesThePlaceOfABinaryFile(t *testing.T) {
	base, err := ReadArchive(tarOf(t, entry{name: "a", content: "\xff"}, entry{name: "b/c", content: "\xff"}, entry{name: "d", content: "\xff"}))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := PackFiles(map[string]string{"a/x": "1", "b": "2"}, base)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadArchive(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a/x": "1", "b": "2"}, got.TextFiles()) + cmp.Diff([]string{"d"}, binaryFiles(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestArchiveBombs reads small archives that are large when unpacked, or declare that they are. The
// used memory stays near the limit.
func TestArchiveBombs(t *testing.T) {
	kubetest.SkipWithRace(t)
	zeros := strings.Repeat("\x00", 41<<20) // One MiB more than the limit.
	inner := zipOf(t, entry{name: "0", content: zeros})
	lying := tarOf(t, entry{name: "a", content: "x"})
	copy(lying[124:136], "77777777777\x00") // The size, in octal: 8 GiB.
	copy(lying[148:156], tarChecksum(lying[:512]))
	small := zipOf(t, entry{name: "main.tf", content: zeros[:1<<20]})
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"zip":                        {inner, `its files have more than 40 MiB together, "0" among them`},
		"zip, many files":            {zipOf(t, manyFiles(41, zeros[:1<<20])...), "its files have more than 40 MiB together"},
		"zip, empty files":           {zipOf(t, manyFiles(maxEntries+1, "")...), "it has more than 20000 entries"},
		"zip, says less":             {declaring(small, 10), `file "main.tf": zip:`},
		"zip, says more":             {declaring(small, 41<<20), "its files have more than 40 MiB together"},
		"tar, says more":             {lying, `its files have more than 40 MiB together, "a" among them`},
		"tar, cut off":               {tarOf(t, entry{name: "a", content: zeros[:10<<20]})[:1<<20], "unexpected EOF"},
		"long path":                  {zipOf(t, entry{name: strings.Repeat("a/", 1000) + "b"}), "the path of an entry has more than 1024 bytes"},
		"deep path":                  {tarOf(t, entry{name: strings.Repeat("a/", 33) + "b"}), "the path of an entry has more than 32 folders"},
		"a bomb in an archive":       {zipOf(t, entry{name: "modules/a.zip", content: string(inner)}), ""},
		"leads out, and it is large": {zipOf(t, entry{name: "../../etc/passwd", content: zeros[:30<<20]}), `must not contain ".."`},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			archive, err := ReadArchive(c.data)
			runtime.ReadMemStats(&after)
			if c.says == "" {
				if err != nil || len(archive.binary) != 1 {
					// An archive inside an archive is not unpacked.
					t.Fatalf("%v, %v", archive, err)
				}
			} else {
				mustSay(t, err, c.says)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("%d MiB were allocated for %d KiB", n>>20, len(c.data)>>10)
			}
		})
	}
}

// TestArchiveWithoutContent reads an archive of which only some text is kept.
func TestArchiveWithoutContent(t *testing.T) {
	entries := []entry{
		{name: "a.tf", content: strings.Repeat("\u20ac", 30_000)}, {name: "logo.png", content: strings.Repeat("\u20ac", 30_000) + "\xff"},
		{name: "half.txt", content: strings.Repeat("x", 1000) + "\xe2\x82"}, {name: "z.tf", content: "z"},
	}
	for form, data := range map[string][]byte{"tar": tarOf(t, entries...), "zip": zipOf(t, entries...)} {
		whole, err := readAs[form](data, all)
		if err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int64]int{90_001: 2, 90_000: 0, 0: 0} {
			got, err := readAs[form](data, unpacking{bytes: maxUnpackedBytes, text: limit})
			if err != nil || got.Summary() != whole.Summary() || len(got.TextFiles()) != want || len(got.binary) != 0 {
				t.Errorf("%s, %d bytes of text: %d text files, %+v, %v; want %d, %+v", form, limit, len(got.TextFiles()), got.Summary(), err, want, whole.Summary())
			}
			if diff := cmp.Diff([]string{"half.txt", "logo.png"}, binaryFiles(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", form, diff)
			}
		}
	}
}

func manyFiles(n int, content string) []entry {
	entries := make([]entry, n)
	for i := range entries {
		entries[i] = entry{name: fmt.Sprintf("f%d", i), content: content}
	}
	return entries
}

// declaring changes the uncompressed size in the directory of a zip archive with one file.
func declaring(data []byte, size uint32) []byte {
	data = bytes.Clone(data)
	at := bytes.Index(data, directoryEntry)
	binary.LittleEndian.PutUint32(data[at+24:], size)
	return data
}

// tarChecksum returns the checksum of a header.
func tarChecksum(header []byte) string {
	sum := 0
	for i, b := range header {
		if i >= 148 && i < 156 {
			b = ' '
		}
		sum += int(b)
	}
	return fmt.Sprintf("%06o\x00 ", sum)
}

// FuzzReadArchive reads any data. The result has clean paths within the limits and can be packed
// and read again, or the error says why not.
func FuzzReadArchive(f *testing.F) {
	plain := []entry{{name: "main.tf", content: "a"}, {name: "dir/", kind: tar.TypeDir}, {name: "dir/b", content: "\xff"}}
	evil := []entry{
		{name: "../a", content: "x"}, {name: "/a", content: "x"}, {name: "a", content: "x"}, {name: "./a", content: "\xff"}, {name: "a/b", content: "y"},
		{name: "l", content: "../../etc", kind: tar.TypeSymlink}, {name: "n\xff", content: "z"},
	}
	for _, entries := range [][]entry{plain, evil, nil} {
		f.Add(tarOf(f, entries...))
		f.Add(zipOf(f, entries...))
	}
	f.Add([]byte("PK\x03\x04"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range readAs {
			archive, err := read(data, all)
			if err == nil {
				checkArchive(t, archive)
			}
			few, fewErr := read(data, unpacking{bytes: maxUnpackedBytes, text: 2})
			if (fewErr == nil) != (err == nil) || err == nil && few.Summary() != archive.Summary() {
				t.Fatalf("%+v, %v without content; want %+v, %v", few.Summary(), fewErr, archive.Summary(), err)
			}
		}
		archive, err := ReadArchive(data)
		if err != nil {
			mustBeUnacceptable(t, err)
			return
		}
		checkArchive(t, archive)
		packed, err := PackArchive(archive)
		if err != nil {
			mustBeUnacceptable(t, err)
			return
		}
		again, err := ReadArchive(packed)
		if err != nil {
			t.Fatalf("what was packed cannot be read: %v", err)
		}
		if diff := cmp.Diff(archive.text, again.text) + cmp.Diff(archive.binary, again.binary); diff != "" {
			t.Fatalf("packed and read again (-before +after):\n%s", diff)
		}
	})
}

func checkArchive(t *testing.T, archive *Archive) {
	t.Helper()
	for name, content := range archive.text {
		if _, twice := archive.binary[name]; twice || !utf8.ValidString(content) {
			t.Fatalf("%q is text and is not", name)
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(archive.text)), binaryFiles(archive)...) {
		if clean, problem := cleanPath(name); problem != "" || clean != name {
			t.Fatalf("path %q: %s", name, problem)
		}
	}
	if s := archive.Summary(); s.Bytes > maxUnpackedBytes || s.Files > maxEntries {
		t.Fatalf("%+v", s)
	}
}

func mustBeUnacceptable(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusUnprocessableEntity && !IsArchiveTooLarge(err) || len(e.Fields) == 0 {
		t.Fatalf("%v", err)
	}
}

// FuzzPackFiles packs any two files with a base archive that contains a binary file.
func FuzzPackFiles(f *testing.F) {
	f.Add("main.tf", "a", "b/c.tf", "b")
	f.Add("../x", "a", "a/../b", "b")
	f.Add("a", "a", "./a", "b")
	f.Add("a", "a", "a/b", "\xff")
	f.Add("img", "a", "img/logo.png/x", "b")
	f.Add(`a\b`, "a", "c\x00", "b")
	f.Add(strings.Repeat("a/", 32)+"a", "a", strings.Repeat("a/", 32<<10)+"a", "b")
	f.Fuzz(func(t *testing.T, name1, content1, name2, content2 string) {
		base := &Archive{binary: map[string]string{"img/logo.png": "\xff"}}
		files := map[string]string{name1: content1, name2: content2}
		packed, err := PackFiles(files, base)
		if err != nil {
			mustBeUnacceptable(t, err)
			return
		}
		if again, err := PackFiles(files, base); err != nil || !bytes.Equal(packed, again) {
			t.Fatalf("the same files give other bytes: %v", err)
		}
		archive, err := ReadArchive(packed)
		if err != nil {
			t.Fatal(err)
		}
		checkArchive(t, archive)
		for name, content := range files {
			if got, ok := archive.text[name]; !ok || got != content {
				t.Fatalf("%q holds %q, want %q", name, got, content)
			}
		}
		if problems := foldersThatAreFiles(entriesOf(archive)); len(problems) > 0 {
			t.Fatalf("%v", problems)
		}
	})
}

func entriesOf(a *Archive) map[string]string {
	out := map[string]string{}
	for name, content := range a.text {
		out[name] = content
	}
	for name, content := range a.binary {
		out[name] = content
	}
	return out
}

// binaryFiles returns the paths of the files that are not text, sorted.
func binaryFiles(a *Archive) []string {
	names := slices.Collect(maps.Keys(a.binary))
	for name, file := range a.absent {
		if file.binary {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
