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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// maxBytes limits the text of one resource.
const maxBytes = 256 << 10

func (r *Resources) object(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	obj, err := r.get(ctx, a)
	if err != nil {
		return nil, err
	}
	if a.collection.name == "templates" {
		if err := summarizeFiles(obj); err != nil {
			return nil, err
		}
	}
	shown := redactObject(obj.Object)
	for _, left := range []string{"", "spec", "status"} {
		if left != "" {
			delete(shown, left)
			shown["notice"] = fmt.Sprintf("%s and more is left out, because the object has more than %d KiB", left, maxBytes>>10)
		}
		body, err := encode(shown)
		if err != nil {
			return nil, err
		}
		if len(body) <= maxBytes {
			return &mcp.ResourceContents{MIMEType: jsonType, Text: body}, nil
		}
	}
	return nil, toolset.UsageError(fmt.Sprintf("the metadata of %s alone has more than %d KiB, which is not shown", a, maxBytes>>10))
}

// get reads the object of an address, unredacted.
func (r *Resources) get(ctx context.Context, a address) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(a.collection.kind)
	if err := r.kube.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: a.name}, obj); err != nil {
		return nil, a.failed("get", err)
	}
	return obj, nil
}

// failed returns the error of a failed request for the objects of an address.
func (a address) failed(verb string, err error) error {
	return &toolset.CallError{Verb: verb, Resource: a.collection.resource, Namespace: a.namespace, Name: a.name, Err: err}
}

// summarizeFiles replaces the text of each file, which is a resource of its own, by its
// size.
func summarizeFiles(obj *unstructured.Unstructured) error {
	files, found, err := unstructured.NestedMap(obj.Object, "spec", "files")
	if err != nil || !found {
		return err
	}
	for path, content := range files {
		text, _ := content.(string)
		files[path] = fmt.Sprintf("(%d bytes)", len(text))
	}
	return unstructured.SetNestedMap(obj.Object, files, "spec", "files")
}

// encode returns the JSON of an answer, marked as data.
func encode(answer any) (string, error) {
	body, err := toolset.JSON(answer)
	return string(toolset.Marked(body)), err
}

// fitting encodes a list of as many of the first items as fit into maxBytes. notice says what
// is left out if that many are shown, or returns "".
func fitting[T any](key string, items []T, notice func(shown int) string) (*mcp.ResourceContents, error) {
	for {
		answer := map[string]any{key: items}
		if left := notice(len(items)); left != "" {
			answer["truncated"], answer["notice"] = true, left
		}
		body, err := encode(answer)
		if err != nil {
			return nil, err
		}
		if len(body) <= maxBytes || len(items) == 0 {
			return &mcp.ResourceContents{MIMEType: jsonType, Text: body}, nil
		}
		items = items[:len(items)/2]
	}
}

func noticeIf(more bool, notice string) string {
	if more {
		return notice
	}
	return ""
}

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
	source := a.subresource("files")
	stream, err := source.Open(ctx, r.kube)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	archive := tar.NewReader(io.LimitReader(stream, maxSourceBytes))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errMissing
		}
		if err != nil {
			return nil, source.Failed(err)
		}
		if header.Typeflag != tar.TypeReg || path.Clean(header.Name) != a.file {
			continue
		}
		// One byte more than the limit, to detect a file that is too long.
		content, err := io.ReadAll(io.LimitReader(archive, maxBytes+1))
		if err != nil {
			return nil, source.Failed(err)
		}
		return content, nil
	}
}

// describeFile returns a file as text, with literal secrets redacted, or as a blob.
func describeFile(a address, content []byte) (*mcp.ResourceContents, error) {
	tooLong := len(content) > maxBytes
	if tooLong {
		content = toolset.WholeCharacters(content[:maxBytes])
	}
	switch {
	case utf8.Valid(content):
		shown := toolset.CleanSource(a.file, string(content))
		if tooLong {
			shown += fmt.Sprintf("\n(the rest is left out: the file has more than %d KiB)\n", maxBytes>>10)
		}
		return &mcp.ResourceContents{MIMEType: textType, Text: shown}, nil
	case tooLong:
		return nil, toolset.UsageError(fmt.Sprintf("%s is not text and has more than %d KiB, which is the limit", a, maxBytes>>10))
	}
	return &mcp.ResourceContents{MIMEType: "application/octet-stream", Blob: content}, nil
}
