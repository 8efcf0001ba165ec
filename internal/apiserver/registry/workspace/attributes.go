package workspace

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// The fields that field selectors support.
const (
	fieldName         = "metadata.name"
	fieldNamespace    = "metadata.namespace"
	fieldTemplate     = "spec.templateName"
	fieldOrganization = "spec.organization"
	fieldRunning      = "spec.running"
	fieldOwner        = "status.ownerName"
	fieldPhase        = "status.phase"
)

// Attributes returns the labels and fields that selectors match.
func Attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	ws, ok := obj.(*aggregationv1alpha1.CoderWorkspace)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no CoderWorkspace", obj)
	}
	return ws.Labels, fields.Set{
		fieldName:         ws.Name,
		fieldNamespace:    ws.Namespace,
		fieldTemplate:     ws.Spec.TemplateName,
		fieldOrganization: ws.Spec.Organization,
		fieldRunning:      strconv.FormatBool(ptr.Deref(ws.Spec.Running, false)),
		fieldOwner:        ws.Status.OwnerName,
		fieldPhase:        ws.Status.Phase,
	}, nil
}

// FieldLabel returns an error if field selectors do not support the field.
func FieldLabel(label, value string) (string, string, error) {
	switch label {
	case fieldName, fieldNamespace, fieldTemplate, fieldOrganization, fieldRunning, fieldOwner, fieldPhase:
		return label, value, nil
	}
	return "", "", fmt.Errorf("%q is no field by which workspaces can be selected; these are: %s, %s, %s, %s, %s, %s and %s",
		label, fieldName, fieldNamespace, fieldTemplate, fieldOrganization, fieldRunning, fieldOwner, fieldPhase)
}

// indexed returns the fields with an index in the cache.
func indexed() []string { return []string{fieldOwner, fieldTemplate} }

func indexers() *cache.Indexers {
	by := func(value func(*aggregationv1alpha1.CoderWorkspace) string) cache.IndexFunc {
		return func(obj any) ([]string, error) {
			ws, ok := obj.(*aggregationv1alpha1.CoderWorkspace)
			if !ok {
				return nil, fmt.Errorf("%T is no CoderWorkspace", obj)
			}
			return []string{value(ws)}, nil
		}
	}
	return &cache.Indexers{
		storage.FieldIndex(fieldOwner):    by(func(ws *aggregationv1alpha1.CoderWorkspace) string { return ws.Status.OwnerName }),
		storage.FieldIndex(fieldTemplate): by(func(ws *aggregationv1alpha1.CoderWorkspace) string { return ws.Spec.TemplateName }),
	}
}
