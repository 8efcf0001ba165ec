package resources

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// Only the first objects of a long list are read, because completion must be fast.
	completionPage  = 500
	completionPages = 4
)

// Complete proposes values for the variables of resource templates and for the arguments of
// prompts. It returns no values if the caller may not list the objects.
func (r *Resources) Complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	q, ok := newQuestion(req.Params)
	if !ok {
		return completed(nil, false), nil
	}
	values, more, err := r.values(ctx, q)
	var call *toolset.CallError
	switch {
	case err == nil:
		return completed(matching(values, q.typed), more), nil
	case errors.As(err, &call) && (apierrors.IsForbidden(call.Err) || apierrors.IsNotFound(call.Err)):
		return completed(nil, false), nil
	}
	_, sentence := toolset.Sentence(ctx, err)
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: sentence}
}

type question struct {
	collection collection
	// argument is namespace, name or path.
	argument string
	typed    string
	// namespace and name are the values that were chosen before.
	namespace, name string
}

// newQuestion parses a completion request. It returns false if there is nothing to propose.
func newQuestion(params *mcp.CompleteParams) (question, bool) {
	if params == nil || params.Ref == nil {
		return question{}, false
	}
	q := question{argument: params.Argument.Name, typed: params.Argument.Value}
	if params.Context != nil {
		q.namespace, q.name = params.Context.Arguments["namespace"], params.Context.Arguments["name"]
	}
	var ok bool
	q.collection, ok = collectionOf(params.Ref)
	// A slash in the namespace or the name would direct the request to another resource.
	return q, ok && len(content.IsPathSegmentName(q.namespace)) == 0 && len(content.IsPathSegmentName(q.name)) == 0
}

// collectionOf returns the collection that a resource template or a prompt refers to.
func collectionOf(ref *mcp.CompleteReference) (collection, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(ref.URI, scheme), "/")
	if ref.Type == "ref/prompt" {
		name = ""
		for _, p := range prompts() {
			if p.name == ref.Name {
				name = p.collection
			}
		}
	}
	return collectionNamed(name)
}

// values returns all possible values. more reports that there are further ones.
func (r *Resources) values(ctx context.Context, q question) (values []string, more bool, err error) {
	switch {
	case q.argument == "namespace":
		return r.eachObject(ctx, q.collection, "", func(o metav1.PartialObjectMetadata) string { return o.Namespace })
	case q.argument == "name":
		return r.eachObject(ctx, q.collection, q.namespace, func(o metav1.PartialObjectMetadata) string { return o.Name })
	case q.argument == "path" && slices.Contains(q.collection.parts, partFiles) && q.namespace != "" && q.name != "":
		return r.paths(ctx, address{collection: q.collection, namespace: q.namespace, name: q.name})
	}
	return nil, false, nil
}

// eachObject returns wanted for each object of a namespace, or of all namespaces.
func (r *Resources) eachObject(
	ctx context.Context, c collection, namespace string, wanted func(metav1.PartialObjectMetadata) string,
) (values []string, more bool, err error) {
	next := ""
	for range completionPages {
		page := c.metadataList()
		err := r.kube.List(ctx, page, client.InNamespace(namespace), client.Limit(completionPage), client.Continue(next))
		if err != nil {
			return nil, false, address{collection: c, namespace: namespace}.failed("list", err)
		}
		for _, item := range page.Items {
			values = append(values, wanted(item))
		}
		if next = page.Continue; next == "" {
			return values, false, nil
		}
	}
	return values, true, nil
}

// paths returns the paths of the template's files that are part of the object.
func (r *Resources) paths(ctx context.Context, a address) (values []string, more bool, err error) {
	obj, err := r.get(ctx, a)
	if err != nil {
		return nil, false, err
	}
	files, _, err := unstructured.NestedMap(obj.Object, "spec", "files")
	for path := range files {
		values = append(values, path)
	}
	return values, false, err
}

// matching returns the values with the prefix typed, sorted and without duplicates.
func matching(values []string, typed string) []string {
	kept := slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, typed) })
	slices.Sort(kept)
	return slices.Compact(kept)
}

// maxCompletions is the maximum number of values that the protocol allows in one answer.
const maxCompletions = 100

// completed returns a result with the first values.
func completed(values []string, more bool) *mcp.CompleteResult {
	shown := values[:min(len(values), maxCompletions)]
	details := mcp.CompletionResultDetails{Values: append([]string{}, shown...), HasMore: more || len(shown) < len(values)}
	if !more {
		details.Total = len(values)
	}
	return &mcp.CompleteResult{Completion: details}
}
