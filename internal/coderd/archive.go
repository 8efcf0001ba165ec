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

func (a *Archive) add(name string, content []byte) {
	if utf8.Valid(content) {
		a.text[name] = string(content)
		return
	}
	a.binary[name] = content
}

// maxUnpackedBytes is what Coder itself takes in one archive. It is more than
// PackFiles makes, because an archive may come from elsewhere.
const maxUnpackedBytes = 100 << 20

// reading bounds how much of a stranger's archive is unpacked.
type reading struct {
	archive *Archive
	total   int64
}

func newReading() *reading {
	return &reading{archive: &Archive{text: map[string]string{}, binary: map[string][]byte{}}}
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
		return fmt.Errorf("its files have more than %s together", mebibytes(maxUnpackedBytes))
	}
	if clean, problem := cleanPath(name); problem == "" {
		r.archive.add(clean, data)
	}
	return nil
}

// readZip unpacks what UploadArchive was given, or an archive of zip type.
func readZip(data []byte) (*Archive, error) {
	reader, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	r := newReading()
	for _, entry := range reader.File {
		if !entry.Mode().IsRegular() {
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
func readTar(data []byte) (*Archive, error) {
	reader := tar.NewReader(bytes.NewReader(data))
	r := newReading()
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return r.archive, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := r.file(header.Name, reader); err != nil {
			return nil, err
		}
	}
}
