package toolset

import (
	"context"
	"io"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// Subresource is a subresource that is read as a text, as an archive or as a JSON document.
type Subresource struct {
	group                             schema.GroupVersion
	resource, namespace, object, name string
	query                             url.Values
}

// Aggregated returns a subresource of a workspace or a template.
func Aggregated(resource, namespace, object, name string, query url.Values) Subresource {
	return Subresource{aggregationv1alpha1.GroupVersion, resource, namespace, object, name, query}
}

// PodLog returns the log of a pod.
func PodLog(namespace, pod string, options *corev1.PodLogOptions) Subresource {
	// The options consist of strings and numbers, so encoding them cannot fail.
	query, _ := scheme.ParameterCodec.EncodeParameters(options, corev1.SchemeGroupVersion)
	return Subresource{corev1.SchemeGroupVersion, "pods", namespace, pod, "log", query}
}

// Open requests the subresource with the caller's permissions. The caller must close the
// reader.
func (s Subresource) Open(ctx context.Context, kube *callers.Kube) (io.ReadCloser, error) {
	if err := RequireObject(s.namespace, s.object); err != nil {
		return nil, err
	}
	body, err := kube.Raw(ctx, s.Path(), s.query)
	if err != nil {
		return nil, s.Failed(err)
	}
	return body, nil
}

// Decode requests the subresource and decodes its JSON document into into.
func (s Subresource) Decode(ctx context.Context, kube *callers.Kube, into any) error {
	if err := RequireObject(s.namespace, s.object); err != nil {
		return err
	}
	if err := kube.ReadJSON(ctx, s.Path(), s.query, into); err != nil {
		return s.Failed(err)
	}
	return nil
}

// Tail returns the newest lines of a text, cleaned. cut reports whether older ones were left
// out.
func (s Subresource) Tail(ctx context.Context, kube *callers.Kube, lines, bytes int) (kept string, cut bool, err error) {
	body, err := s.Open(ctx, kube)
	if err != nil {
		return "", false, err
	}
	defer body.Close()
	raw, cut, err := ReadTail(body, lines, bytes)
	if err != nil {
		return "", false, s.Failed(err)
	}
	// Redaction can make a text longer.
	kept, cutAgain, err := ReadTail(strings.NewReader(CleanText(raw)), lines, bytes)
	return kept, cut || cutAgain, err
}

// Failed returns the error of a failed request for the subresource.
func (s Subresource) Failed(err error) error {
	resource := strings.TrimSuffix(s.resource+"/"+s.name+"."+s.group.Group, ".")
	return &CallError{Verb: "get", Resource: resource, Namespace: s.namespace, Name: s.object, Err: err}
}

// Path returns the path in the API.
func (s Subresource) Path() string {
	return callers.SubresourcePath(s.group, s.namespace, s.resource, s.object, s.name)
}
