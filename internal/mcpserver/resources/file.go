package resources

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// maxSourceBytes limits how much of a template's archive is read. Coder accepts archives of
// 20 MiB, which may be compressed; the archive that is read here is not.
const maxSourceBytes = 128 << 20

// file reads one file of a template: from the object, which contains all text files of a
// source that is not too large, or otherwise from the archive.
func (r *Resources) file(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	obj, err := r.get(ctx, a.object())
	if err != nil {
		return nil, err
	}
	files, _, err := unstructured.NestedStringMap(obj.Object, "spec", "files")
	if err != nil {
		return nil, fmt.Errorf("reading spec.files of %s: %w", a.object(), err)
	}
	if content, ok := files[a.file]; ok {
		return describeFile(a, []byte(content))
	}
	if inline, _, _ := unstructured.NestedBool(obj.Object, "status", "source", "inline"); inline {
		return nil, errMissing
	}
	content, err := r.archived(ctx, a)
	if err != nil {
		return nil, err
	}
	return describeFile(a, content)
}

// archived reads a file from the archive of a template's source.
func (r *Resources) archived(ctx context.Context, a address) ([]byte, error) {
	stream, err := r.kube.Raw.Get(ctx, a.partPath("files"), nil)
	if err != nil {
		return nil, a.partFailed("files", err)
	}
	defer func() { _ = stream.Close() }()
	archive := tar.NewReader(io.LimitReader(stream, maxSourceBytes))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errMissing
		}
		if err != nil {
			return nil, a.partFailed("files", err)
		}
		if header.Typeflag != tar.TypeReg || path.Clean(header.Name) != a.file {
			continue
		}
		// One byte more than the limit, to detect a file that is too long.
		content, err := io.ReadAll(io.LimitReader(archive, maxBytes+1))
		if err != nil {
			return nil, a.partFailed("files", err)
		}
		return content, nil
	}
}

// describeFile returns a file as text, with literal secrets redacted, or as a blob.
func describeFile(a address, content []byte) (*mcp.ResourceContents, error) {
	tooLong := len(content) > maxBytes
	if tooLong {
		content = wholeCharacters(content[:maxBytes])
	}
	switch {
	case utf8.Valid(content):
		shown := redactSource(string(content))
		if tooLong {
			shown += fmt.Sprintf("\n(the rest is left out: the file has more than %d KiB)\n", maxBytes>>10)
		}
		return &mcp.ResourceContents{MIMEType: textType, Text: shown}, nil
	case tooLong:
		return nil, toolset.UsageError(fmt.Sprintf("%s is no text and has more than %d KiB, which is not sent", a, maxBytes>>10))
	}
	return &mcp.ResourceContents{MIMEType: "application/octet-stream", Blob: content}, nil
}

// wholeCharacters removes an incomplete UTF-8 character from the end.
func wholeCharacters(content []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(content); i++ {
		if start := len(content) - i; utf8.RuneStart(content[start]) {
			if !utf8.FullRune(content[start:]) {
				return content[:start]
			}
			break
		}
	}
	return content
}
