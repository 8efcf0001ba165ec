package integration

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestTemplateVersions watches the versions of a template through kube-apiserver while a push builds one, and reads them as callers
// with and without permission.
func TestTemplateVersions(t *testing.T) {
	_, ns, _, _ := coderServed(t)
	of := []client.ListOption{client.InNamespace(ns), client.MatchingFields{"status.template": "coder.hello"}}
	list := &aggregationv1alpha1.CoderTemplateVersionList{}
	polltest.Eventually(t, "the first version is listed", func(ctx context.Context) error {
		if err := environment.client.List(ctx, list, of...); err != nil {
			return err
		}
		if len(list.Items) != 1 || !list.Items[0].Status.Active {
			return fmt.Errorf("versions %+v", list.Items)
		}
		return nil
	})
	first := list.Items[0]
	if owner := metav1.GetControllerOf(&first); owner == nil || owner.Kind != "CoderTemplate" || owner.Name != "coder.hello" {
		t.Errorf("the owner of %s is %+v", first.Name, owner)
	}

	watcher, err := client.NewWithWatch(environment.config, client.Options{Scheme: environment.scheme})
	if err != nil {
		t.Fatal(err)
	}
	w, err := watcher.Watch(t.Context(), &aggregationv1alpha1.CoderTemplateVersionList{}, append(of, &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	patch(t, &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "coder.hello"}}, "test", `{"spec":{"files":{"main.tf":"# second"}}}`)
	added, active := "", map[string]bool{first.Name: true}
	for added == "" || !active[added] || active[first.Name] {
		event := <-w.ResultChan()
		v, ok := event.Object.(*aggregationv1alpha1.CoderTemplateVersion)
		if !ok {
			t.Fatalf("event %s: %+v", event.Type, event.Object)
		}
		if event.Type == watch.Added {
			added = v.Name
		}
		active[v.Name] = v.Status.Active
	}

	made(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-templates"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"aggregation.coder.com"}, Resources: []string{"codertemplates"}, Verbs: []string{"get", "list", "watch"},
	}}})
	viewer, reader := as(t, serviceAccountConfig(t, ns, "viewer")), as(t, serviceAccountConfig(t, ns, "reader"))
	grant(t, ns, "coder-k8s-view", "viewer")
	grant(t, ns, "reads-templates", "reader")
	polltest.Eventually(t, "a viewer lists the versions", func(ctx context.Context) error {
		if err := reader.List(ctx, &aggregationv1alpha1.CoderTemplateList{}, client.InNamespace(ns)); err != nil {
			return err
		}
		if err := viewer.List(ctx, list, of...); err != nil || len(list.Items) != 2 {
			return fmt.Errorf("%d versions, %w", len(list.Items), err)
		}
		return nil
	})
	for name, err := range map[string]error{
		"the versions, by a reader of templates": reader.List(t.Context(), list, of...),
		"one version, by a reader of templates":  reader.Get(t.Context(), client.ObjectKeyFromObject(&first), &first),
		"all namespaces, by a viewer of one":     viewer.List(t.Context(), list),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want Forbidden", name, err)
		}
	}
	if err := environment.client.Delete(t.Context(), &first); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a deletion: %v, want MethodNotSupported", err)
	}
}
