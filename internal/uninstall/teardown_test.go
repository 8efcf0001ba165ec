package uninstall

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// slowDeletion is a cluster that deletes the records of workspaces slowly. Their definition exists
// until all are deleted.
type slowDeletion struct {
	client.Client
	// left is the number of records, of which held have a finalizer. perList are deleted after each
	// list.
	left, held, perList int
}

func (c *slowDeletion) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	for _, d := range installation.AllDefinitions() {
		if d.Name == key.Name && d.Kind == "CoderWorkspaceRecord" && c.left > 0 {
			return unstructured.SetNestedField(obj.(*unstructured.Unstructured).Object, d.Kind, "spec", "names", "kind")
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c *slowDeletion) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	found := list.(*metav1.PartialObjectMetadataList)
	for i := range c.left {
		item := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint(i)}}
		if i < c.held {
			item.Finalizers = []string{"example.com/hold"}
		}
		found.Items = append(found.Items, item)
	}
	c.left = max(c.held, c.left-c.perList)
	return nil
}

func (*slowDeletion) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

// TestManyRecords checks that the deletion of a definition is awaited while the number of its
// objects falls, and what is reported about the objects that are left.
func TestManyRecords(t *testing.T) {
	const still = "CustomResourceDefinition coderworkspacerecords.internal.coder.com is still being deleted"
	for name, c := range map[string]struct {
		cluster slowDeletion
		stayed  string
	}{
		"slow":      {slowDeletion{left: 5000, perList: 1000}, ""},
		"stuck":     {slowDeletion{left: 5000}, still + ", because 5000 of its objects are left; kube-apiserver continues to delete them"},
		"held":      {slowDeletion{left: 5000, perList: 1000, held: 1}, still + ", because these objects have finalizers of other controllers: CoderWorkspaceRecord team/0 (example.com/hold)"},
		"many held": {slowDeletion{left: 10, held: 7}, "CoderWorkspaceRecord team/4 (example.com/hold); and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &uninstaller{kube: &c.cluster, step: time.Millisecond, progress: io.Discard}
			if err := u.deleteDefinitions(t.Context()); err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(u.stayed, "\n"); !strings.HasSuffix(said, c.stayed) || (said == "") != (c.stayed == "") {
				t.Error(cmp.Diff(c.stayed, said))
			}
		})
	}
}
