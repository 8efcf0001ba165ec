package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/warning"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Find gives the connection of a namespace whose objects have the prefix. It is
// nil where there is none.
func Find(ctx context.Context, provider connections.Provider, namespace, prefix string) (*connections.Connection, error) {
	found, err := provider.ForNamespace(ctx, namespace)
	for i := range found {
		if found[i].NamePrefix == prefix {
			return &found[i], nil
		}
	}
	// One that is not ready may be the one with this prefix.
	return nil, coderfault.Subject{}.Status(err)
}

// List asks the control planes of a namespace, or of all namespaces where it is
// empty, at the same time, and gives what they answer.
func List[T any](
	ctx context.Context, provider connections.Provider, namespace string,
	ask func(context.Context, connections.Connection) ([]T, error),
) ([]T, error) {
	if namespace != "" {
		found, err := provider.ForNamespace(ctx, namespace)
		if err != nil {
			return nil, coderfault.Subject{}.Status(err)
		}
		items, failed := askEach(ctx, found, ask)
		if len(failed) > 0 {
			return nil, coderfault.Subject{}.Status(failed[0].err)
		}
		return items, nil
	}
	found, err := provider.All(ctx)
	var unavailable *connections.UnavailableError
	if err != nil && !errors.As(err, &unavailable) {
		return nil, coderfault.Subject{}.Status(err)
	}
	items, failed := askEach(ctx, found, ask)
	var missing []string
	if unavailable != nil {
		missing = append(missing, unavailable.ControlPlanes...)
	}
	for _, f := range failed {
		missing = append(missing, fmt.Sprintf("%s: %v", f.connection.ControlPlane, f.err))
	}
	if len(missing) > 0 && len(failed) == len(found) {
		return nil, coderfault.Unavailable("no control plane can be asked now: "+strings.Join(missing, "; "), waitFor(unavailable))
	}
	for _, m := range missing {
		warning.AddWarning(ctx, "", "the list is not complete, because a control plane cannot be asked now: "+m)
	}
	return items, nil
}

func waitFor(err *connections.UnavailableError) time.Duration {
	if err == nil {
		return 0
	}
	return err.RetryAfter
}

type failure struct {
	connection connections.Connection
	err        error
}

func askEach[T any](
	ctx context.Context, all []connections.Connection,
	ask func(context.Context, connections.Connection) ([]T, error),
) ([]T, []failure) {
	answers := make([][]T, len(all))
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, connection := range all {
		group.Go(func() { answers[i], errs[i] = ask(ctx, connection) })
	}
	group.Wait()
	var items []T
	var failed []failure
	for i := range all {
		if errs[i] != nil {
			failed = append(failed, failure{all[i], errs[i]})
			continue
		}
		items = append(items, answers[i]...)
	}
	return items, failed
}
