package coderd

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Archive is the files of one template version as stored in Coder.
type Archive struct {
	text, binary map[string]string
	// absent contains the files whose content was not kept.
	absent map[string]absentFile
	// SHA256 is the hash of the archive in hexadecimal, or empty if it was not read to its end.
	SHA256 string
}

type absentFile struct {
	size   int64
	binary bool
}

// TextFiles returns the files that are UTF-8 text, by path, without those whose content was not
// kept. The caller may change the map.
func (a *Archive) TextFiles() map[string]string {
	out := map[string]string{}
	if a != nil {
		maps.Copy(out, a.text)
	}
	return out
}

// ArchiveSummary is the number and size of the files in an archive.
type ArchiveSummary struct {
	// Files and Bytes count all files, TextFiles and TextBytes only the text files.
	Files, TextFiles int
	Bytes, TextBytes int64
	Largest          string
	LargestBytes     int64
}

// Summary returns the number and size of the files, whether their content was kept or not.
func (a *Archive) Summary() ArchiveSummary {
	if a == nil {
		return ArchiveSummary{}
	}
	var s ArchiveSummary
	count := func(name string, n int64, text bool) {
		s.Files++
		s.Bytes += n
		if text {
			s.TextFiles++
			s.TextBytes += n
		}
		if n > s.LargestBytes || n == s.LargestBytes && (s.Largest == "" || name < s.Largest) {
			s.Largest, s.LargestBytes = name, n
		}
	}
	for name, content := range a.text {
		count(name, int64(len(content)), true)
	}
	for name, content := range a.binary {
		count(name, int64(len(content)), false)
	}
	for name, file := range a.absent {
		count(name, file.size, !file.binary)
	}
	return s
}

const (
	// maxUnpackedBytes is Coder's own limit for an archive. It is larger than the limit of
	// PackFiles, because an archive may have another origin.
	maxUnpackedBytes = 100 << 20
	// maxEntries limits the number of entries in an archive. An empty file costs the sender almost
	// nothing, but its name uses memory of the reader.
	maxEntries = 20_000
)

// unpacking configures how an archive is read.
type unpacking struct {
	// strict makes entries an error that would otherwise be skipped.
	strict bool
	// bytes limits the total size of all files.
	bytes int64
	// text limits the total size of the text that is kept. If there is more, no text is kept. Other
	// files are kept if binary is set.
	text   int64
	binary bool
}

// reading is the state while an untrusted archive is unpacked within its limits.
type reading struct {
	unpacking
	archive *Archive
	total   int64
	entries int
	texts   int64
	buffer  []byte
}

func newReading(how unpacking) *reading {
	return &reading{
		unpacking: how, buffer: make([]byte, 32<<10),
		archive: &Archive{text: map[string]string{}, binary: map[string]string{}, absent: map[string]absentFile{}},
	}
}

// tooMuch reports that an archive exceeds a limit.
type tooMuch struct{ problem string }

func (e *tooMuch) Error() string { return e.problem }

func exceeded(format string, args ...any) error { return &tooMuch{fmt.Sprintf(format, args...)} }

func (r *reading) entry(name string) error {
	if r.entries++; r.entries > maxEntries {
		return exceeded("it has more than %d entries", maxEntries)
	}
	if limit := tooLongPath(name); limit != "" {
		return exceeded("the path of an entry %s", limit)
	}
	return nil
}

// other handles an entry that is not a regular file. Links and devices are skipped, because their
// targets are not in the archive.
func (r *reading) other(name string, folder bool) error {
	if folder || !r.strict {
		return nil
	}
	return fmt.Errorf("entry %q is neither a file nor a folder; links and devices cannot be part of a template", name)
}

func (r *reading) tooLarge(name string) error {
	return exceeded("its files have more than %s together, %q among them", size(r.bytes), name)
}

// file reads one file. declared is the size in the archive's header, which is used to refuse a file
// that is too large before reading it. An entry whose path leads out of the archive is skipped, or
// an error if strict is set.
func (r *reading) file(name string, declared int64, content io.Reader) error {
	if declared < 0 || declared > r.bytes-r.total {
		return r.tooLarge(name)
	}
	into := &contentWriter{keepText: r.text - r.texts, keepBinary: r.binary}
	if declared <= into.keepText || into.keepBinary {
		// So that a large file is not copied while the buffer grows.
		into.kept.Grow(int(declared))
	}
	n, err := io.CopyBuffer(into, io.LimitReader(content, r.bytes-r.total+1), r.buffer)
	r.total += n
	switch {
	case r.total > r.bytes:
		return r.tooLarge(name)
	case err != nil:
		return fmt.Errorf("file %q: %w", name, err)
	}
	clean, problem := cleanPath(name)
	switch {
	case problem == "":
		r.add(clean, into)
	case r.strict:
		return fmt.Errorf("file %q: %s", name, problem)
	}
	return nil
}

func (r *reading) add(name string, content *contentWriter) {
	a := r.archive
	r.texts -= int64(len(a.text[name]))
	// If an archive contains a name twice, the last one applies, as when the archive is unpacked to a disk.
	delete(a.text, name)
	delete(a.binary, name)
	delete(a.absent, name)
	text := !content.binary && len(content.rest) == 0
	switch {
	case text && !content.dropped && content.size <= content.keepText:
		a.text[name] = content.kept.String()
		r.texts += content.size
	case !text && !content.dropped && content.keepBinary:
		a.binary[name] = content.kept.String()
	default:
		a.absent[name] = absentFile{size: content.size, binary: !text}
		if text {
			for path, dropped := range a.text {
				a.absent[path] = absentFile{size: int64(len(dropped))}
			}
			clear(a.text)
			r.texts, r.text = 0, -1
		}
	}
}

// contentWriter receives the content of one file, and keeps it if it is needed.
type contentWriter struct {
	keepText   int64
	keepBinary bool
	size       int64
	kept       strings.Builder
	dropped    bool
	// binary reports that the content is not UTF-8. rest is an incomplete character at the end of
	// the content so far.
	binary bool
	rest   []byte
}

func (w *contentWriter) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	w.check(p)
	if w.binary && !w.keepBinary || !w.binary && !w.keepBinary && w.size > w.keepText {
		w.dropped = true
		w.kept = strings.Builder{}
	}
	if !w.dropped {
		w.kept.Write(p)
	}
	return len(p), nil
}

// check sets binary if it finds bytes that are not UTF-8.
func (w *contentWriter) check(p []byte) {
	for len(w.rest) > 0 && len(p) > 0 && !w.binary {
		w.rest, p = append(w.rest, p[0]), p[1:]
		if utf8.FullRune(w.rest) {
			w.binary = !utf8.Valid(w.rest)
			w.rest = nil
		}
	}
	if w.binary {
		return
	}
	end := len(p)
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if start := len(p) - i; utf8.RuneStart(p[start]) {
			if !utf8.FullRune(p[start:]) {
				end = start
			}
			break
		}
	}
	w.binary = !utf8.Valid(p[:end])
	w.rest = append(w.rest, p[end:]...)
}

// ReadArchive unpacks a tar or zip archive from a user. Unlike for an archive from Coder, of which
// unusable entries are skipped, paths that lead out of the archive, links, and everything else that
// cannot be part of a template are errors. The error is an *Error with status 413 if the archive
// exceeds a limit, else with status 422.
func ReadArchive(data []byte) (*Archive, error) {
	how := unpacking{strict: true, bytes: MaxTotalBytes, text: MaxTotalBytes, binary: true}
	var archive *Archive
	var err error
	if bytes.HasPrefix(data, []byte("PK")) {
		archive, err = readZip(data, how)
	} else {
		archive, err = readTar(bytes.NewReader(data), how)
	}
	if err == nil && len(archive.text)+len(archive.binary) == 0 {
		err = errors.New("there is no file in it; send a tar or zip archive")
	}
	if err != nil {
		refused := unacceptable([]FieldError{{Field: "files", Detail: "the archive cannot be used: " + err.Error()}})
		refused.StatusCode = unpackingStatus(err)
		return nil, refused
	}
	archive.SHA256 = fmt.Sprintf("%x", sha256.Sum256(data))
	return archive, nil
}

func unpackingStatus(err error) int {
	if _, much := errors.AsType[*tooMuch](err); much || IsTooLarge(err) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// IsArchiveTooLarge reports whether an archive exceeds the limits of a template, or a request the
// limit of Coder. IsInvalid is also true for the error.
func IsArchiveTooLarge(err error) bool { return hasStatus(err, http.StatusRequestEntityTooLarge) }

// directoryEntry is the signature of each entry in the directory of a zip archive.
var directoryEntry = []byte("PK\x01\x02")

// readZip unpacks a zip archive. The sizes in its directory are checked before anything is
// unpacked.
func readZip(data []byte, how unpacking) (*Archive, error) {
	r := newReading(how)
	// zip.NewReader reads the whole directory before it returns the number of entries.
	if bytes.Count(data, directoryEntry) > maxEntries {
		return nil, exceeded("it has more than %d entries", maxEntries)
	}
	reader, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	declared := int64(0)
	for _, entry := range reader.File {
		if err := r.entry(entry.Name); err != nil {
			return nil, err
		}
		if entry.UncompressedSize64 > uint64(how.bytes-declared) {
			return nil, r.tooLarge(entry.Name)
		}
		declared += int64(entry.UncompressedSize64) //nolint:gosec // It is at most how.bytes.
	}
	for _, entry := range reader.File {
		if !entry.Mode().IsRegular() {
			if err := r.other(entry.Name, entry.Mode().IsDir()); err != nil {
				return nil, err
			}
			continue
		}
		content, err := entry.Open()
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", entry.Name, err)
		}
		err = r.file(entry.Name, int64(entry.UncompressedSize64), content) //nolint:gosec // See above.
		_ = content.Close()
		if err != nil {
			return nil, err
		}
	}
	return r.archive, nil
}

// readTar unpacks a tar archive, the format in which Coder stores every archive.
func readTar(data io.Reader, how unpacking) (*Archive, error) {
	reader := tar.NewReader(data)
	r := newReading(how)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return r.archive, nil
		}
		if err != nil {
			return nil, err
		}
		if err := r.entry(header.Name); err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			if err := r.other(header.Name, header.Typeflag == tar.TypeDir); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.file(header.Name, header.Size, reader); err != nil {
			return nil, err
		}
	}
}
