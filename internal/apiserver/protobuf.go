package apiserver

import (
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// withoutProtobufObjects removes protobuf from the Accept header of requests to our group. Our
// types have no protobuf encoding, and a client that prefers protobuf but also accepts JSON would
// get 406.
//
// Protobuf stays for requests of metadata only (as=PartialObjectMetadata), which the namespace
// controller sends, and in request bodies (DeleteOptions).
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

// acceptable returns the Accept header without protobuf for our types.
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
