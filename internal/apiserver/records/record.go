package records

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
)

// Record is one custom resource.
type Record struct {
	Namespace, Name string
	// Revision is the revision of the record, or 0 if it was not written yet.
	Revision uint64

	recordsv1alpha1.RecordSpec

	// lost is true if a part of the files is missing. Files is empty then.
	lost bool
}

// Cluster stores the records of one kind. Its errors are API statuses if kube-apiserver has
// responded.
type Cluster interface {
	// Create and Update set the Revision of the record. Update requires the current Revision.
	Create(ctx context.Context, record *Record) error
	Update(ctx context.Context, record *Record) error
	// Delete deletes a record that has this revision.
	Delete(ctx context.Context, namespace, name string, revision uint64) error
	// Get reads the newest state if resourceVersion is empty.
	Get(ctx context.Context, namespace, name, resourceVersion string) (*Record, error)
	// Revision reads the newest revision of a record. It is faster than Get.
	Revision(ctx context.Context, namespace, name string) (uint64, error)
	List(ctx context.Context, query Query) (*List, error)
	Watch(ctx context.Context, query Query) (Stream, error)
}

// Query selects records. Its fields have the meaning of the list options of kube-apiserver.
type Query struct {
	// Namespace is empty for all namespaces, Name is empty for all names.
	Namespace, Name      string
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	Limit                int64
	Continue             string
}

// List is one page of a list.
type List struct {
	Records  []Record
	Revision uint64
	Continue string
	// Remaining is the number of records on the following pages, or 0 if unknown.
	Remaining int64
}

// every returns all records that match the query, and reads a page when the previous one was used.
// After an error it ends.
func every(ctx context.Context, cluster Cluster, query Query) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			page, err := cluster.List(ctx, query)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Records {
				if !yield(&page.Records[i], nil) {
					return
				}
			}
			if page.Continue == "" {
				return
			}
			query.Continue = page.Continue
		}
	}
}

// Stream is an open watch.
type Stream interface {
	// Next waits for an event. An error ends the stream. If it is an API status, kube-apiserver has
	// sent it.
	Next() (Event, error)
	Close()
}

// Event is an event of a Stream.
type Event struct {
	// Type is never watch.Error.
	Type   watch.EventType
	Record Record
}

// resource is the JSON form of a record in kube-apiserver.
type resource struct {
	APIVersion string                     `json:"apiVersion,omitempty"`
	Kind       string                     `json:"kind,omitempty"`
	Metadata   resourceMeta               `json:"metadata"`
	Spec       recordsv1alpha1.RecordSpec `json:"spec"`
}

type resourceMeta struct {
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type resourceList struct {
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

func (r *resource) record() (Record, error) {
	revision, err := parseRevision(r.Metadata.ResourceVersion)
	if err != nil {
		return Record{}, fmt.Errorf("record %s/%s: %w", r.Metadata.Namespace, r.Metadata.Name, err)
	}
	return Record{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name, Revision: revision, RecordSpec: r.Spec}, nil
}

func parseRevision(text string) (uint64, error) {
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its resourceVersion %q is not a number", text)
	}
	return revision, nil
}

func formatRevision(revision uint64) string { return strconv.FormatUint(revision, 10) }
