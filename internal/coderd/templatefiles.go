package coderd

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// The limits of a template's files. A request to the Kubernetes API has at most
// 3 MiB, so what comes from there meets that limit first.
const (
	// MaxFileBytes is the limit of one file that is given as text.
	MaxFileBytes = 2 << 20
	// MaxTotalBytes is the limit of all files together, unpacked.
	MaxTotalBytes = 40 << 20
	// MaxArchiveBytes is the limit of all files together, packed.
	MaxArchiveBytes = 20 << 20
	// MaxFiles is the limit of their number.
	MaxFiles = 2000
)

// packedAt stands in each entry of an archive, so that equal files give equal
// bytes. It is the first time that the format knows.
var packedAt = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// PackFiles packs the files of a template into a zip archive. Equal files give
// equal bytes. Of base, which may be nil, it keeps the files that are not text
// and that are not replaced, because they cannot be given as text.
//
// A file that cannot be packed gives an *Error of status 422 with one FieldError
// per file, whose Field is files[<path>].
func PackFiles(files map[string]string, base *Archive) ([]byte, error) {
	entries, problems := cleanFiles(files)
	keepBinary(entries, base)
	return pack(entries, problems)
}

// PackArchive packs all files of an archive, text or not, as PackFiles does.
func PackArchive(a *Archive) ([]byte, error) {
	entries := make(map[string][]byte, len(a.text)+len(a.binary))
	for name, content := range a.text {
		entries[name] = []byte(content)
	}
	for name, content := range a.binary {
		entries[name] = content
	}
	return pack(entries, foldersThatAreFiles(entries))
}

// keepBinary adds the files of an archive that are not text. One that cannot be
// beside the files that are there, because it has the path of one of them or of a
// folder of theirs, or lies in one of them, was replaced.
func keepBinary(entries map[string][]byte, base *Archive) {
	if base == nil {
		return
	}
	taken := withFolders(entries)
	kept := map[string][]byte{}
	for name, content := range base.binary {
		if !taken[name] && !taken[name+"/"] && !liesInFile(name, entries) {
			kept[name] = content
		}
	}
	for name, content := range kept {
		entries[name] = content
	}
}

func liesInFile(name string, entries map[string][]byte) bool {
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		if _, isFile := entries[folder]; isFile {
			return true
		}
	}
	return false
}

func pack(entries map[string][]byte, problems []FieldError) ([]byte, error) {
	if problem := checkTotals(entries); problem != nil {
		problems = append(problems, *problem)
	}
	if len(problems) > 0 {
		return nil, unacceptable(problems)
	}
	packed, err := packZip(entries)
	if err != nil {
		return nil, &Error{Op: packingOp, Message: err.Error(), Err: err}
	}
	if len(packed) > MaxArchiveBytes {
		return nil, unacceptable([]FieldError{{
			Field:  "files",
			Detail: fmt.Sprintf("the files have %d bytes when packed, and a template may have at most %s; the largest is %s", len(packed), mebibytes(MaxArchiveBytes), largest(entries)),
		}})
	}
	return packed, nil
}

const packingOp = "packing the template's files"

func unacceptable(problems []FieldError) *Error {
	return &Error{
		Op:         packingOp,
		StatusCode: http.StatusUnprocessableEntity,
		Message:    "the files cannot become a template version",
		Fields:     problems,
	}
}

// cleanFiles checks each file by itself and names it as Coder will.
func cleanFiles(files map[string]string) (map[string][]byte, []FieldError) {
	entries := make(map[string][]byte, len(files))
	givenAs := make(map[string]string, len(files))
	var problems []FieldError
	for _, name := range sortedKeys(files) {
		report := func(detail string) {
			problems = append(problems, FieldError{Field: fmt.Sprintf("files[%s]", name), Detail: detail})
		}
		clean, problem := cleanPath(name)
		switch {
		case problem != "":
			report(problem)
		case givenAs[clean] != "":
			report(fmt.Sprintf("is the same file as %q", givenAs[clean]))
		case len(files[name]) > MaxFileBytes:
			report(fmt.Sprintf("has %d bytes, and a file may have at most %s", len(files[name]), mebibytes(MaxFileBytes)))
		case !utf8.ValidString(files[name]):
			report("must be UTF-8 text")
		default:
			entries[clean] = []byte(files[name])
			givenAs[clean] = name
		}
	}
	problems = append(problems, foldersThatAreFiles(entries)...)
	return entries, problems
}

// cleanPath gives the path in its one form, or what is wrong with it.
func cleanPath(name string) (clean, problem string) {
	switch {
	case name == "":
		return "", "the path must not be empty"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", "the path must be UTF-8 text without control characters"
	case strings.Contains(name, `\`):
		return "", `the path must not contain a backslash; separate folders with "/"`
	case strings.HasPrefix(name, "/"):
		return "", "the path must be relative, without a leading slash"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", `the path must not contain ".."`
	case strings.HasSuffix(name, "/"):
		return "", "the path must name a file, not a folder"
	}
	clean = path.Clean(name)
	if clean == "." {
		return "", "the path must name a file, not a folder"
	}
	return clean, ""
}

// foldersThatAreFiles finds paths like a and a/b, of which only one can exist.
func foldersThatAreFiles(entries map[string][]byte) []FieldError {
	var problems []FieldError
	for _, name := range sortedKeys(entries) {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if _, exists := entries[folder]; exists {
				problems = append(problems, FieldError{
					Field:  fmt.Sprintf("files[%s]", name),
					Detail: fmt.Sprintf("lies in %q, which is a file itself", folder),
				})
			}
		}
	}
	return problems
}

func checkTotals(entries map[string][]byte) *FieldError {
	total := 0
	for _, content := range entries {
		total += len(content)
	}
	switch {
	case len(entries) > MaxFiles:
		return &FieldError{Field: "files", Detail: fmt.Sprintf("there are %d files, and a template may have at most %d", len(entries), MaxFiles)}
	case total > MaxTotalBytes:
		return &FieldError{Field: "files", Detail: fmt.Sprintf("the files have %d bytes together, and a template may have at most %s; the largest is %s",
			total, mebibytes(MaxTotalBytes), largest(entries))}
	}
	return nil
}

// largest names the largest file and its size.
func largest(entries map[string][]byte) string {
	name := ""
	for _, candidate := range sortedKeys(entries) {
		if name == "" || len(entries[candidate]) > len(entries[name]) {
			name = candidate
		}
	}
	return fmt.Sprintf("%q with %d bytes", name, len(entries[name]))
}

// withFolders adds the folders in which the files lie.
func withFolders(entries map[string][]byte) map[string]bool {
	out := make(map[string]bool, len(entries))
	for name := range entries {
		out[name] = true
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			out[folder+"/"] = true
		}
	}
	return out
}

func packZip(entries map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	writer := zip.NewWriter(&packed)
	// Coder's provisioner makes only the folders that are entries themselves, and
	// fails on a file in any other. A folder sorts before what lies in it.
	for _, name := range sortedKeys(withFolders(entries)) {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: packedAt}
		if strings.HasSuffix(name, "/") {
			header.Method = zip.Store
			header.SetMode(fs.ModeDir | 0o755)
		} else {
			header.SetMode(0o644)
		}
		entry, err := writer.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(entries[name]); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func mebibytes(n int) string { return fmt.Sprintf("%d MiB", n>>20) }

// UploadArchive stores a zip archive in Coder. The same bytes from the same
// user have the same id, so an upload may be repeated.
func (c *Client) UploadArchive(ctx context.Context, packed []byte) (uuid.UUID, error) {
	var out uuid.UUID
	err := c.call(ctx, "uploading the template's files", func(ctx context.Context) error {
		res, err := c.sdk.Upload(ctx, codersdk.ContentTypeZip, bytes.NewReader(packed))
		out = res.ID
		return err
	})
	return out, err
}

// DownloadFile reads an archive as Coder holds it, which is tar, or as zip.
func (c *Client) DownloadFile(ctx context.Context, fileID uuid.UUID, asZip bool) ([]byte, error) {
	format := ""
	if asZip {
		format = codersdk.FormatZip
	}
	var out []byte
	err := c.call(ctx, fmt.Sprintf("downloading the template's files %s", fileID), func(ctx context.Context) error {
		var err error
		out, _, err = c.sdk.DownloadWithFormat(ctx, fileID, format)
		return err
	})
	return out, err
}

// DownloadArchive reads the files of a template version.
func (c *Client) DownloadArchive(ctx context.Context, fileID uuid.UUID) (*Archive, error) {
	op := fmt.Sprintf("downloading the template's files %s", fileID)
	var out *Archive
	err := c.call(ctx, op, func(ctx context.Context) error {
		data, contentType, err := c.sdk.Download(ctx, fileID)
		if err != nil {
			return err
		}
		kind, _, _ := mime.ParseMediaType(contentType)
		switch kind {
		case codersdk.ContentTypeTar:
			out, err = readTar(data, false)
		case codersdk.ContentTypeZip:
			out, err = readZip(data, false)
		default:
			return &Error{Op: op, Message: fmt.Sprintf("Coder at %s sent %q instead of an archive", c.url, kind)}
		}
		if err != nil {
			return &Error{Op: op, StatusCode: http.StatusUnprocessableEntity, Message: "the archive cannot be unpacked", Detail: err.Error(), Err: err}
		}
		return nil
	})
	return out, err
}
