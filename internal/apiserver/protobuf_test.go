package apiserver

import "testing"

func TestAcceptable(t *testing.T) {
	for accept, want := range map[string]string{
		"application/json":                                      "application/json",
		"application/vnd.kubernetes.protobuf":                   "",
		"application/vnd.kubernetes.protobuf, application/json": "application/json",
		"application/vnd.kubernetes.protobuf;q=0.9,*/*":         "*/*",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
	} {
		if got := acceptable(accept); got != want {
			t.Errorf("%q becomes %q, want %q", accept, got, want)
		}
	}
}
