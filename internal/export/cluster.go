package export

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// cluster is the aggregated API of a cluster.
type cluster struct {
	config *rest.Config
	// namespace is empty for all namespaces.
	namespace string
	// controlPlane is empty for all control planes.
	controlPlane string
	kinds        kinds
}

// read lists templates, workspaces and users.
func (c cluster) read(ctx context.Context, r *report) (found, error) {
	var warnings bytes.Buffer
	config := rest.CopyConfig(c.config)
	config.WarningHandler = rest.NewWarningWriter(&warnings, rest.WarningWriterOptions{Deduplicate: true})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return found{}, fmt.Errorf("using the kubeconfig: %w", err)
	}
	var out found
	if c.kinds.needTemplates() {
		readAll(ctx, c, client, "templates", &out.templates, r)
	}
	if c.kinds.workspaces {
		readAll(ctx, c, client, "workspaces", &out.workspaces, r)
	}
	if c.kinds.users {
		readAll(ctx, c, client, "users", &out.users, r)
	}
	for line := range strings.Lines(warnings.String()) {
		r.leave("objects may be missing or outdated: %s", strings.TrimPrefix(strings.TrimSpace(line), "Warning: "))
	}
	return out, nil
}

// readAll reads the objects of a resource, whose name follows the prefix coder. It skips an object
// that cannot be decoded.
func readAll[T any](ctx context.Context, c cluster, client dynamic.Interface, name string, into *[]T, r *report) {
	objects := client.Resource(aggregationv1alpha1.GroupVersion.WithResource("coder" + name)).Namespace(c.namespace)
	selector := labels.Everything()
	if c.controlPlane != "" {
		selector = labels.SelectorFromSet(labels.Set{aggregationv1alpha1.LabelControlPlaneName: c.controlPlane})
	}
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return objects.List(ctx, options)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(obj runtime.Object) error {
		item := obj.(*unstructured.Unstructured)
		var object T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &object); err != nil {
			r.leave("%s %s/%s: it cannot be decoded, so this program may be older than the server: %v",
				item.GetKind(), item.GetNamespace(), item.GetName(), err)
			return nil
		}
		*into = append(*into, object)
		return nil
	})
	if err != nil {
		r.leave("the %s: %v", name, explained(err))
	}
}

// explained adds a hint to the error of a missing API.
func explained(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster does not serve %s; install coder-k8s and create a CoderControlPlane; for a Coder of the Helm chart, coder-k8s migrate helm prints one: %w",
			aggregationv1alpha1.GroupVersion, err)
	}
	return err
}

// found contains the templates, workspaces and users of a Coder.
type found struct {
	templates  []aggregationv1alpha1.CoderTemplate
	workspaces []aggregationv1alpha1.CoderWorkspace
	users      []aggregationv1alpha1.CoderUser
}

// sort sorts the objects into the order of the output.
func (f *found) sort() {
	slices.SortFunc(f.templates, func(a, b aggregationv1alpha1.CoderTemplate) int { return byName(&a, &b) })
	slices.SortFunc(f.users, func(a, b aggregationv1alpha1.CoderUser) int { return byName(&a, &b) })
	slices.SortFunc(f.workspaces, func(a, b aggregationv1alpha1.CoderWorkspace) int { return byName(&a, &b) })
}

func byName(a, b metav1.Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}
