package export

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

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
	// users says that users are read too.
	users bool
}

// read lists templates, workspaces and users.
func (c cluster) read(ctx context.Context, r *report) (found, error) {
	heard := &warnings{}
	config := rest.CopyConfig(c.config)
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return found{}, fmt.Errorf("using the kubeconfig: %w", err)
	}
	var out found
	err = c.each(ctx, client, "codertemplates", func(item *unstructured.Unstructured) error {
		var t template
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &t.CoderTemplate)
		if err == nil {
			out.templates = append(out.templates, t)
		}
		return err
	}, r)
	if err != nil {
		r.leave("the templates: %v", explained(err))
	}
	err = c.each(ctx, client, "coderworkspaces", func(item *unstructured.Unstructured) error {
		var ws aggregationv1alpha1.CoderWorkspace
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &ws)
		if err == nil {
			out.workspaces = append(out.workspaces, ws)
		}
		return err
	}, r)
	if err != nil {
		r.leave("the workspaces: %v", explained(err))
	}
	if c.users {
		err = c.each(ctx, client, "coderusers", func(item *unstructured.Unstructured) error {
			var u aggregationv1alpha1.CoderUser
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &u)
			if err == nil {
				out.users = append(out.users, u)
			}
			return err
		}, r)
		if err != nil {
			r.leave("the users: %v", explained(err))
		}
	}
	for _, text := range heard.all() {
		r.leave("objects may be missing or outdated: %s", text)
	}
	return out, nil
}

// each calls take for the objects of a resource. It skips an object that cannot be read.
func (c cluster) each(
	ctx context.Context, client dynamic.Interface, resource string, take func(*unstructured.Unstructured) error, r *report,
) error {
	objects := client.Resource(aggregationv1alpha1.GroupVersion.WithResource(resource)).Namespace(c.namespace)
	selector := labels.Everything()
	if c.controlPlane != "" {
		selector = labels.SelectorFromSet(labels.Set{aggregationv1alpha1.LabelControlPlaneName: c.controlPlane})
	}
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return objects.List(ctx, options)
	})
	return list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(obj runtime.Object) error {
		item := obj.(*unstructured.Unstructured)
		if err := take(item); err != nil {
			r.leave("%s %s/%s: it cannot be decoded, so this program may be older than the server: %v",
				item.GetKind(), item.GetNamespace(), item.GetName(), err)
		}
		return nil
	})
}

// explained adds a hint to the error of a missing API.
func explained(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster does not serve %s; install coder-k8s, or give --url and --token-file to export from a Coder directly: %w",
			aggregationv1alpha1.GroupVersion, err)
	}
	return err
}

// warnings collects the warnings of the server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	const miscellaneous = 299
	if code != miscellaneous || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, known := range w.texts {
		if known == text {
			return
		}
	}
	w.texts = append(w.texts, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts
}

// found contains the templates and workspaces of a Coder.
type found struct {
	templates  []template
	workspaces []aggregationv1alpha1.CoderWorkspace
	users      []aggregationv1alpha1.CoderUser
}

// template is a template with additional information about its variables.
type template struct {
	aggregationv1alpha1.CoderTemplate
	// sensitive are the variables whose values Coder does not return.
	sensitive []string
	// sensitivityKnown reports that Coder was asked which variables are sensitive.
	sensitivityKnown bool
}

// sort sorts the objects into the order of the output.
func (f *found) sort() {
	slices.SortFunc(f.templates, func(a, b template) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(f.users, func(a, b aggregationv1alpha1.CoderUser) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(f.workspaces, func(a, b aggregationv1alpha1.CoderWorkspace) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
