package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
)

// requestTimeout limits the duration of all requests except watches.
const requestTimeout = 15 * time.Second

// Client reads and writes the records of one kind in kube-apiserver.
type Client struct {
	resource, kind string
	// metadata is a client whose responses have only the metadata.
	records, metadata *rest.RESTClient
}

var _ Cluster = (*Client)(nil)

// NewClient returns a Client for a resource of internal.coder.com, without a client-side rate limit.
func NewClient(config *rest.Config, resource, kind string) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	// The server may send a warning with each of ten thousand writes.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &recordsv1alpha1.GroupVersion, scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	records, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for %s: %w", resource, err)
	}
	// A small response takes about 15% less time over HTTP/1.1 than over HTTP/2.
	config.NextProtos = []string{"http/1.1"}
	config.AcceptContentTypes = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadata, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for %s: %w", resource, err)
	}
	return &Client{resource: resource, kind: kind, records: records, metadata: metadata}, nil
}

// Create implements Cluster.
func (c *Client) Create(ctx context.Context, record *Record) error {
	return c.write(ctx, c.records.Post().Namespace(record.Namespace), record, "")
}

// Update implements Cluster.
func (c *Client) Update(ctx context.Context, record *Record) error {
	return c.write(ctx, c.records.Put().Namespace(record.Namespace).Name(record.Name), record, formatRevision(record.Revision))
}

func (c *Client) write(ctx context.Context, request *rest.Request, record *Record, version string) error {
	body, err := json.Marshal(resource{
		APIVersion: recordsv1alpha1.GroupVersion.String(), Kind: c.kind, Spec: record.RecordSpec,
		Metadata: resourceMeta{Namespace: record.Namespace, Name: record.Name, ResourceVersion: version},
	})
	if err != nil {
		return err
	}
	// Only the new revision is needed from the response.
	var answer struct {
		Metadata resourceMeta `json:"metadata"`
	}
	if err := c.do(ctx, withBody(request, body), &answer); err != nil {
		return err
	}
	record.Revision, err = parseRevision(answer.Metadata.ResourceVersion)
	return err
}

// Delete implements Cluster.
func (c *Client) Delete(ctx context.Context, namespace, name string, revision uint64) error {
	version := formatRevision(revision)
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{ResourceVersion: &version},
	})
	if err != nil {
		return err
	}
	return c.do(ctx, withBody(c.records.Delete().Namespace(namespace).Name(name), body), nil)
}

func withBody(request *rest.Request, body []byte) *rest.Request {
	return request.SetHeader("Content-Type", "application/json").Body(body)
}

// Get implements Cluster.
func (c *Client) Get(ctx context.Context, namespace, name, resourceVersion string) (*Record, error) {
	request := c.records.Get().Namespace(namespace).Name(name)
	if resourceVersion != "" {
		request.Param("resourceVersion", resourceVersion)
	}
	var r resource
	if err := c.do(ctx, request, &r); err != nil {
		return nil, err
	}
	record, err := r.record()
	return &record, err
}

// Revision implements Cluster.
func (c *Client) Revision(ctx context.Context, namespace, name string) (uint64, error) {
	var r resource
	if err := c.do(ctx, c.metadata.Get().Namespace(namespace).Name(name), &r); err != nil {
		return 0, err
	}
	return parseRevision(r.Metadata.ResourceVersion)
}

// List implements Cluster.
func (c *Client) List(ctx context.Context, query Query) (*List, error) {
	var list resourceList
	if err := c.do(ctx, c.selected(query, metav1.ListOptions{}), &list); err != nil {
		return nil, err
	}
	revision, err := parseRevision(list.Metadata.ResourceVersion)
	if err != nil {
		return nil, err
	}
	out := &List{Records: make([]Record, len(list.Items)), Revision: revision, Continue: list.Metadata.Continue}
	if list.Metadata.RemainingItemCount != nil {
		out.Remaining = *list.Metadata.RemainingItemCount
	}
	return out, inParallel(len(list.Items), func(i int) error {
		var r resource
		if err := json.Unmarshal(list.Items[i], &r); err != nil {
			return err
		}
		list.Items[i] = nil
		var err error
		out.Records[i], err = r.record()
		return err
	})
}

// inParallel calls do for 0 to n-1 on all cores.
func inParallel(n int, do func(i int) error) error {
	workers := min(runtime.GOMAXPROCS(0), n)
	var group errgroup.Group
	for w := range workers {
		group.Go(func() error {
			for i := w; i < n; i += workers {
				if err := do(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// Watch implements Cluster.
func (c *Client) Watch(ctx context.Context, query Query) (Stream, error) {
	request := c.selected(query, metav1.ListOptions{Watch: true, AllowWatchBookmarks: true})
	body, err := request.Resource(c.resource).MaxRetries(0).Stream(ctx)
	if err != nil {
		return nil, answered(err)
	}
	return &stream{body: body, decoder: json.NewDecoder(body)}, nil
}

type stream struct {
	body    io.ReadCloser
	decoder *json.Decoder
}

// Close implements Stream.
func (s *stream) Close() { _ = s.body.Close() }

// Next implements Stream.
func (s *stream) Next() (Event, error) {
	var event struct {
		Type   watch.EventType
		Object json.RawMessage
	}
	if err := s.decoder.Decode(&event); err != nil {
		return Event{}, err
	}
	if event.Type == watch.Error {
		status := metav1.Status{}
		if err := json.Unmarshal(event.Object, &status); err != nil {
			return Event{}, err
		}
		return Event{}, &apierrors.StatusError{ErrStatus: status}
	}
	var r resource
	if err := json.Unmarshal(event.Object, &r); err != nil {
		return Event{}, err
	}
	record, err := r.record()
	return Event{Type: event.Type, Record: record}, err
}

// selected returns a request for the records that match a query.
func (c *Client) selected(query Query, options metav1.ListOptions) *rest.Request {
	options.ResourceVersion, options.ResourceVersionMatch = query.ResourceVersion, query.ResourceVersionMatch
	options.Limit, options.Continue = query.Limit, query.Continue
	if query.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", query.Name).String()
	}
	return c.records.Get().NamespaceIfScoped(query.Namespace, query.Namespace != "").
		SpecificallyVersionedParams(&options, scheme.ParameterCodec, corev1.SchemeGroupVersion)
}

// do sends a request, and decodes the response into out.
func (c *Client) do(ctx context.Context, request *rest.Request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// client-go logs a response that ends early as an error, also if the client has left.
	ctx = klog.NewContext(ctx, logr.Discard())
	result := request.Resource(c.resource).MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil || out == nil {
		return answered(err)
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// answered returns an error that is no API status if the response has none: client-go makes one of its HTTP
// status, which may be that of a proxy, or 404 because the resource is not installed.
func answered(err error) error {
	var status apierrors.APIStatus
	if apierrors.IsUnexpectedServerError(err) && errors.As(err, &status) {
		code := int(status.Status().Code)
		return fmt.Errorf("kube-apiserver answered %d %s", code, http.StatusText(code))
	}
	return err
}
