package kubetest

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/kube/author"
)

// AnyAuthor allows every author to grant everything. It is for tests without the admission policy
// that records authors.
type AnyAuthor struct{}

// Check allows the grant.
func (AnyAuthor) Check(context.Context, client.Object, author.Grant) error { return nil }
