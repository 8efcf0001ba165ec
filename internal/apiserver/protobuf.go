package apiserver

import (
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// withoutProtobufObjects takes protobuf out of what a caller of our group
// accepts, where it would hold our own types: they have no such form, and a
// client that prefers protobuf and accepts JSON as well would get 406.
//
// It stays for requests of metadata alone (as=PartialObjectMetadata), as the
// namespace controller makes them, and in what callers send (DeleteOptions).
func withoutProtobufObjects(next http.Handler) http.Handler {
	prefix := "/apis/" + aggregationv1alpha1.GroupVersion.String() + "/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Values("Accept"); len(accept) > 0 && strings.HasPrefix(r.URL.Path, prefix) {
			if kept := acceptable(strings.Join(accept, ",")); kept != "" {
				r.Header.Set("Accept", kept)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// acceptable gives the header without protobuf of our own types.
func acceptable(accept string) string {
	var kept []string
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(clause)
		if err == nil && mediaType == runtime.ContentTypeProtobuf && params["as"] == "" {
			continue
		}
		kept = append(kept, strings.TrimSpace(clause))
	}
	return strings.Join(kept, ",")
}
