package coderd

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Archive is the files of one template version as Coder holds them.
type Archive struct {
	text   map[string]string
	binary map[string][]byte
}

// TextFiles are the files that are UTF-8 text, by path. The caller may change
// the map.
func (a *Archive) TextFiles() map[string]string {
	out := map[string]string{}
	if a != nil {
		for name, content := range a.text {
			out[name] = content
		}
	}
	return out
}

// BinaryFiles are the paths of the files that are not text, sorted.
func (a *Archive) BinaryFiles() []string {
	if a == nil {
		return nil
	}
	return sortedKeys(a.binary)
}

// add takes a file. A name that comes twice means the file that comes last, as it
// does to who unpacks the archive onto a disk.
func (a *Archive) add(name string, content []byte) {
	delete(a.text, name)
	delete(a.binary, name)
	if utf8.Valid(content) {
		a.text[name] = string(content)
		return
	}
	a.binary[name] = content
}

// ArchiveSummary says how much there is in an archive.
type ArchiveSummary struct {
	// Files and Bytes are those of all files, TextFiles and TextBytes of those that
	// are text.
	Files, TextFiles int
	Bytes, TextBytes int64
	// Largest is the path of the largest file.
	Largest      string
	LargestBytes int64
}

// Summary says how much there is in the archive.
func (a *Archive) Summary() ArchiveSummary {
	if a == nil {
		return ArchiveSummary{}
	}
	s := ArchiveSummary{Files: len(a.text) + len(a.binary), TextFiles: len(a.text)}
	count := func(name string, n int64) {
		s.Bytes += n
		if n > s.LargestBytes || n == s.LargestBytes && (s.Largest == "" || name < s.Largest) {
			s.Largest, s.LargestBytes = name, n
		}
	}
	for name, content := range a.text {
		s.TextBytes += int64(len(content))
		count(name, int64(len(content)))
	}
	for name, content := range a.binary {
		count(name, int64(len(content)))
	}
	return s
}

const (
	// maxUnpackedBytes is what Coder itself takes in one archive. It is more than
	// PackFiles makes, because an archive may come from elsewhere.
	maxUnpackedBytes = 100 << 20
	// maxEntries bounds the entries of one archive. An empty file costs a stranger
	// next to nothing, and whoever unpacks it a name.
	maxEntries = 20_000
)

// reading bounds how much of a stranger's archive is unpacked.
type reading struct {
	archive *Archive
	// strict refuses what otherwise is left out.
	strict  bool
	total   int64
	entries int
}

func newReading(strict bool) *reading {
	return &reading{archive: &Archive{text: map[string]string{}, binary: map[string][]byte{}}, strict: strict}
}

// entry counts one entry, whatever it is.
func (r *reading) entry() error {
	if r.entries++; r.entries > maxEntries {
		return fmt.Errorf("it has more than %d entries", maxEntries)
	}
	return nil
}

// other takes an entry that is no file. Links and devices are left out, because
// nothing that they lead to is in the archive.
func (r *reading) other(name string, folder bool) error {
	if folder || !r.strict {
		return nil
	}
	return fmt.Errorf("entry %q is neither a file nor a folder; links and devices cannot be part of a template", name)
}

// file takes one entry. An entry whose path leads out of the archive is left
// out, because nothing could be done with it.
func (r *reading) file(name string, content io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(content, maxUnpackedBytes-r.total+1))
	if err != nil {
		return fmt.Errorf("file %q: %w", name, err)
	}
	r.total += int64(len(data))
	if r.total > maxUnpackedBytes {
		return fmt.Errorf("its files have more than %s together, %q among them", mebibytes(maxUnpackedBytes), name)
	}
	clean, problem := cleanPath(name)
	switch {
	case problem == "":
		r.archive.add(clean, data)
	case r.strict:
		return fmt.Errorf("file %q: %s", name, problem)
	}
	return nil
}

// ReadArchive unpacks an archive that somebody gives: tar or zip. Where an archive
// of Coder's own is read with what can be used of it, this refuses paths that lead
// out of the archive, links, and whatever else cannot be part of a template. The
// error is an *Error of status 422.
func ReadArchive(data []byte) (*Archive, error) {
	read := readTar
	if bytes.HasPrefix(data, []byte("PK")) {
		read = readZip
	}
	archive, err := read(data, true)
	if err == nil && len(archive.text)+len(archive.binary) == 0 {
		err = errors.New("there is no file in it; send a tar or zip archive")
	}
	if err != nil {
		return nil, unacceptable([]FieldError{{Field: "files", Detail: "the archive cannot be used: " + err.Error()}})
	}
	return archive, nil
}

// readZip unpacks what UploadArchive was given, or an archive of zip type.
func readZip(data []byte, strict bool) (*Archive, error) {
	reader, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	r := newReading(strict)
	for _, entry := range reader.File {
		if err := r.entry(); err != nil {
			return nil, err
		}
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
		err = r.file(entry.Name, content)
		_ = content.Close()
		if err != nil {
			return nil, err
		}
	}
	return r.archive, nil
}

// readTar unpacks the form in which Coder stores every archive.
func readTar(data []byte, strict bool) (*Archive, error) {
	reader := tar.NewReader(bytes.NewReader(data))
	r := newReading(strict)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return r.archive, nil
		}
		if err != nil {
			return nil, err
		}
		if err := r.entry(); err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			if err := r.other(header.Name, header.Typeflag == tar.TypeDir); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.file(header.Name, reader); err != nil {
			return nil, err
		}
	}
}
