package coderd

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// The limits of a template's files. A request to the Kubernetes API is limited to 3 MiB, so files
// from there reach that limit first.
const (
	// MaxFileBytes is the limit of one file that is sent as text.
	MaxFileBytes = 2 << 20
	// MaxTotalBytes is the limit of all files together, unpacked.
	MaxTotalBytes = 40 << 20
	// MaxArchiveBytes is the limit of all files together, packed.
	MaxArchiveBytes = 20 << 20
	// MaxFiles is the maximum number of files.
	MaxFiles = 2000
	// maxPath limits the path of a file or an entry. maxFolders limits its folders: for each file,
	// the path of each of its folders is in memory.
	maxPath    = 1 << 10
	maxFolders = 32
)

// packedAt is the time of each entry in an archive, so that equal files result in equal bytes. It
// is the earliest time that the zip format supports.
var packedAt = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// PackFiles packs the files of a template into a zip archive. Equal files result in equal bytes. It
// keeps the binary files of base that are not replaced, because they cannot be sent as text. A file
// counts as replaced if its path is also the path of one of the files, of a folder that contains
// one, or is inside one. base may be nil.
//
// If a file cannot be packed, PackFiles returns an *Error with status 422 and one FieldError per
// file, whose Field is files[<path>].
func PackFiles(files map[string]string, base *Archive) ([]byte, error) {
	entries, problems := validFiles(files)
	if base != nil {
		taken := withFolders(entries)
		kept := map[string]string{}
		for name, content := range base.binary {
			if !taken[name] && !taken[name+"/"] && !liesInFile(name, entries) {
				kept[name] = content
			}
		}
		maps.Copy(entries, kept)
	}
	return pack(entries, problems)
}

// PackArchive packs all files of an archive, text and binary, as PackFiles does.
func PackArchive(a *Archive) ([]byte, error) {
	entries := a.TextFiles()
	maps.Copy(entries, a.binary)
	if problem := checkTotals(entries); problem != nil {
		refused := unacceptable([]FieldError{*problem})
		refused.StatusCode = http.StatusRequestEntityTooLarge
		return nil, refused
	}
	return pack(entries, foldersThatAreFiles(entries))
}

func liesInFile(name string, entries map[string]string) bool {
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		if _, isFile := entries[folder]; isFile {
			return true
		}
	}
	return false
}

func pack(entries map[string]string, problems []FieldError) ([]byte, error) {
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
			Detail: fmt.Sprintf("the files have %d bytes when packed, and a template may have at most %s; the largest is %s", len(packed), size(MaxArchiveBytes), largest(entries)),
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

// validFiles validates each file and returns the valid ones. A path must be normalized: Coder would
// return another one, so the object would differ from what a client applies.
func validFiles(files map[string]string) (map[string]string, []FieldError) {
	entries := make(map[string]string, len(files))
	var problems []FieldError
	for _, name := range slices.Sorted(maps.Keys(files)) {
		report := func(detail string) {
			problems = append(problems, FieldError{Field: fmt.Sprintf("files[%s]", name), Detail: detail})
		}
		clean, problem := cleanPath(name)
		switch {
		case problem != "":
			report(problem)
		case clean != name:
			report(fmt.Sprintf("the path must be written as %q", clean))
		case len(files[name]) > MaxFileBytes:
			report(fmt.Sprintf("has %d bytes, and a file may have at most %s", len(files[name]), size(MaxFileBytes)))
		case !utf8.ValidString(files[name]):
			report("must be UTF-8 text")
		default:
			entries[name] = files[name]
		}
	}
	problems = append(problems, foldersThatAreFiles(entries)...)
	return entries, problems
}

// cleanPath returns the normalized path, or a description of the problem with it.
func cleanPath(name string) (clean, problem string) {
	tooLong := tooLongPath(name)
	switch {
	case name == "":
		return "", "the path must not be empty"
	case tooLong != "":
		return "", "the path " + tooLong
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

// tooLongPath returns which limit a path exceeds, or an empty string.
func tooLongPath(name string) string {
	switch {
	case len(name) > maxPath:
		return fmt.Sprintf("has more than %d bytes", maxPath)
	case strings.Count(path.Clean(name), "/") > maxFolders:
		return fmt.Sprintf("has more than %d folders", maxFolders)
	}
	return ""
}

// foldersThatAreFiles returns errors for paths such as a and a/b, of which only one can exist.
func foldersThatAreFiles(entries map[string]string) []FieldError {
	var problems []FieldError
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if _, exists := entries[folder]; exists {
				problems = append(problems, FieldError{
					Field:  fmt.Sprintf("files[%s]", name),
					Detail: fmt.Sprintf("is below %q, which is a file", folder),
				})
			}
		}
	}
	return problems
}

func checkTotals(entries map[string]string) *FieldError {
	total := 0
	for _, content := range entries {
		total += len(content)
	}
	switch {
	case len(entries) > MaxFiles:
		return &FieldError{Field: "files", Detail: fmt.Sprintf("there are %d files, and a template may have at most %d", len(entries), MaxFiles)}
	case total > MaxTotalBytes:
		return &FieldError{Field: "files", Detail: fmt.Sprintf("the files have %d bytes together, and a template may have at most %s; the largest is %s",
			total, size(MaxTotalBytes), largest(entries))}
	}
	return nil
}

func largest(entries map[string]string) string {
	name := ""
	for _, candidate := range slices.Sorted(maps.Keys(entries)) {
		if name == "" || len(entries[candidate]) > len(entries[name]) {
			name = candidate
		}
	}
	return fmt.Sprintf("%q with %d bytes", name, len(entries[name]))
}

func withFolders(entries map[string]string) map[string]bool {
	out := make(map[string]bool, len(entries))
	for name := range entries {
		out[name] = true
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			out[folder+"/"] = true
		}
	}
	return out
}

func packZip(entries map[string]string) ([]byte, error) {
	var packed bytes.Buffer
	writer := zip.NewWriter(&packed)
	buffer := make([]byte, 32<<10)
	// Coder's provisioner creates only folders that are entries themselves, and fails on a file in
	// any other folder. In this order a folder precedes its content.
	for _, name := range slices.Sorted(maps.Keys(withFolders(entries))) {
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
		// Hide the reader's WriteTo method, which would copy the whole file.
		if _, err := io.CopyBuffer(entry, struct{ io.Reader }{strings.NewReader(entries[name])}, buffer); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// UploadArchive stores a zip archive in Coder. The same bytes from the same user get the same id,
// so an upload may be repeated.
func (c *Client) UploadArchive(ctx context.Context, packed []byte) (uuid.UUID, error) {
	var out uuid.UUID
	err := c.call(ctx, "uploading the template's files", func(ctx context.Context) error {
		res, err := c.sdk.Upload(ctx, codersdk.ContentTypeZip, bytes.NewReader(packed))
		out = res.ID
		return err
	})
	return out, err
}

// File is the content of an archive while it is downloaded from Coder. It must be closed.
type File struct {
	// Size is its size in bytes, or -1 if Coder does not send it.
	Size int64

	body   io.ReadCloser
	cancel context.CancelCauseFunc
	idle   *time.Timer
	wait   time.Duration
}

// Read implements io.Reader. Each read is limited by the timeout of one request.
func (f *File) Read(p []byte) (int, error) {
	f.idle.Reset(f.wait)
	defer f.idle.Stop()
	return f.body.Read(p)
}

// Close implements io.Closer.
func (f *File) Close() error {
	f.idle.Stop()
	f.cancel(nil)
	return f.body.Close()
}

// OpenFile downloads an archive as tar, the format in which Coder stores it, or as zip.
func (c *Client) OpenFile(ctx context.Context, fileID uuid.UUID, asZip bool) (*File, error) {
	format := ""
	if asZip {
		format = codersdk.FormatZip
	}
	// The timeout runs only while waiting for data, and not while the reader processes it.
	ctx, cancel := context.WithCancelCause(ctx)
	file := &File{cancel: cancel, wait: c.sdk.HTTPClient.Timeout}
	file.idle = time.AfterFunc(file.wait, func() { cancel(context.DeadlineExceeded) })
	err := c.call(ctx, fmt.Sprintf("downloading the template's files %s", fileID), func(ctx context.Context) error {
		res, err := c.download(ctx, c.streams, fileID, format) //nolint:bodyclose // File.Close does.
		if err != nil {
			return err
		}
		file.body, file.Size = res.Body, res.ContentLength
		return nil
	})
	file.idle.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return file, nil
}

func (c *Client) download(ctx context.Context, sdk *codersdk.Client, fileID uuid.UUID, format string) (*http.Response, error) {
	res, err := sdk.Request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/files/%s", fileID), nil, withQuery(map[string]string{"format": format}))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, codersdk.ReadBodyAsError(res)
	}
	if mediaType(res.Header) == "text/html" {
		_ = res.Body.Close()
		return nil, errNotCoder
	}
	return res, nil
}

// DownloadArchive reads the files of a template version. The error is IsArchiveTooLarge if they
// exceed the limits of a template.
func (c *Client) DownloadArchive(ctx context.Context, fileID uuid.UUID) (*Archive, error) {
	return c.downloadArchive(ctx, fileID, unpacking{bytes: MaxTotalBytes, text: MaxTotalBytes, binary: true})
}

// DownloadText is like DownloadArchive, without the content of binary files, and without any
// content if there are more than limit bytes of text. Therefore it needs no more memory than that,
// however large the archive is.
func (c *Client) DownloadText(ctx context.Context, fileID uuid.UUID, limit int64) (*Archive, error) {
	return c.downloadArchive(ctx, fileID, unpacking{bytes: maxUnpackedBytes, text: limit})
}

func (c *Client) downloadArchive(ctx context.Context, fileID uuid.UUID, how unpacking) (*Archive, error) {
	op := fmt.Sprintf("downloading the template's files %s", fileID)
	var out *Archive
	err := c.call(ctx, op, func(ctx context.Context) error {
		res, err := c.download(ctx, c.sdk, fileID, "")
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		body := &noting{from: res.Body}
		if kind := mediaType(res.Header); kind != codersdk.ContentTypeTar {
			return &Error{Op: op, Message: redaction.Truncate(fmt.Sprintf("Coder at %s sent %q instead of an archive", c.url, kind), maxMessage)}
		}
		hash := sha256.New()
		content := io.TeeReader(body, hash)
		out, err = readTar(content, how)
		switch {
		case body.err != nil && !IsTooLarge(body.err):
			// An incomplete download is not a problem of the archive.
			return body.err
		case err != nil:
			return &Error{Op: op, StatusCode: unpackingStatus(err), Message: "the archive cannot be unpacked", Detail: redaction.Truncate(err.Error(), maxDetail), Err: err}
		}
		// The connection is reused if only little data is left.
		if _, err := io.CopyN(io.Discard, content, 64<<10); errors.Is(err, io.EOF) {
			out.SHA256 = hex.EncodeToString(hash.Sum(nil))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// noting records the error of its reader.
type noting struct {
	from io.Reader
	err  error
}

func (n *noting) Read(p []byte) (int, error) {
	count, err := n.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return count, err
}
