package resources

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// scheme is the scheme of all resource URIs.
const scheme = "coder://"

// The parts of objects that have their own URIs.
const (
	partEvents = "events"
	partPods   = "pods"
	partLog    = "log"
	partFiles  = "files"
)

// collection is a kind of object that has URIs.
type collection struct {
	name     string
	kind     schema.GroupVersionKind
	resource string
	parts    []string
	// listed reports that the list of objects is a resource too.
	listed bool
}

func collections() []collection {
	return []collection{
		{
			name: "controlplanes", kind: coderv1alpha1.GroupVersion.WithKind("CoderControlPlane"), resource: "codercontrolplanes",
			parts: []string{partEvents, partPods}, listed: true,
		},
		{
			name: "workspaces", kind: aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace"), resource: "coderworkspaces",
			parts: []string{partLog},
		},
		{
			name: "templates", kind: aggregationv1alpha1.GroupVersion.WithKind("CoderTemplate"), resource: "codertemplates",
			parts: []string{partFiles},
		},
	}
}

func collectionNamed(name string) (collection, bool) {
	all := collections()
	i := slices.IndexFunc(all, func(c collection) bool { return c.name == name })
	if i < 0 {
		return collection{}, false
	}
	return all[i], true
}

// metadataList returns an empty list of the objects' metadata.
func (c collection) metadataList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(c.kind.GroupVersion().WithKind(c.kind.Kind + "List"))
	return list
}

type address struct {
	collection collection
	// In the address of a list, name is empty. In the address of a list of all namespaces,
	// namespace is empty too.
	namespace, name string
	// part is empty in the address of the object itself.
	part string
	// file is a path within the source of a template.
	file string
}

// parseAddress parses a URI. It returns false if no resource can have the URI; then no part
// of the URI is sent to the API.
func parseAddress(uri string) (a address, ok bool) {
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok {
		return address{}, false
	}
	segments := strings.Split(rest, "/")
	for i, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return address{}, false
		}
		segments[i] = plain
	}
	if a.collection, ok = collectionNamed(segments[0]); !ok {
		return address{}, false
	}
	for i, into := range []*string{&a.namespace, &a.name, &a.part} {
		if len(segments) < i+2 {
			break
		}
		*into = segments[i+1]
		if *into == "" || len(content.IsPathSegmentName(*into)) > 0 {
			return address{}, false
		}
	}
	if len(segments) > 4 {
		a.file = strings.Join(segments[4:], "/")
	}
	return a, a.leadsSomewhere()
}

// leadsSomewhere reports whether there are resources with an address of this form.
func (a address) leadsSomewhere() bool {
	switch {
	case a.name == "":
		return a.collection.listed
	case a.part == partFiles:
		// A path that is not in its shortest form is not a valid file name.
		return slices.Contains(a.collection.parts, a.part) && a.file != "" && path.Clean("/"+a.file) == "/"+a.file
	case a.part != "":
		return slices.Contains(a.collection.parts, a.part) && a.file == ""
	}
	return a.file == ""
}

func (a address) object() address {
	a.part, a.file = "", ""
	return a
}

// String returns the URI.
func (a address) String() string {
	segments := []string{a.collection.name}
	for _, segment := range []string{a.namespace, a.name, a.part} {
		if segment != "" {
			segments = append(segments, url.PathEscape(segment))
		}
	}
	if a.file != "" {
		for segment := range strings.SplitSeq(a.file, "/") {
			segments = append(segments, url.PathEscape(segment))
		}
	}
	return scheme + strings.Join(segments, "/")
}
