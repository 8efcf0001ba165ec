package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/log"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// Earlier versions stored in CoderObjectMetadata the metadata that is now in the records.
//
//+kubebuilder:rbac:groups=internal.coder.com,resources=coderobjectmetadata,verbs=list;delete

var objectMetadata = metadatav1alpha1.GroupVersion.WithResource("coderobjectmetadata")

// migrate copies the metadata that an earlier version stored to the records, and deletes the
// originals. It can be repeated.
func migrate(ctx context.Context, client dynamic.Interface, kept metadata.Records) error {
	list, err := client.Resource(objectMetadata).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		// The CRD does not exist.
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the metadata of an earlier version: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if err := migrateOne(ctx, client, kept, &list.Items[i]); err != nil {
			errs = append(errs, fmt.Errorf("migrating CoderObjectMetadata %s/%s: %w", list.Items[i].GetNamespace(), list.Items[i].GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func migrateOne(ctx context.Context, client dynamic.Interface, kept metadata.Records, old *unstructured.Unstructured) error {
	record, err := recordOf(old)
	if err != nil {
		// The earlier version could not read it either.
		log.FromContext(ctx).Error(err, "Not migrating a CoderObjectMetadata that cannot be decoded", "namespace", old.GetNamespace(), "name", old.GetName())
		return nil
	}
	// An existing record is newer.
	if _, known := kept.Get(record.ControlPlane, record.UID); !known {
		if _, err := kept.Put(ctx, record); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	version := old.GetResourceVersion()
	err = client.Resource(objectMetadata).Namespace(old.GetNamespace()).Delete(ctx, old.GetName(),
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func recordOf(old *unstructured.Unstructured) (*metadata.Record, error) {
	raw, err := old.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var typed metadatav1alpha1.CoderObjectMetadata
	if err := json.Unmarshal(raw, &typed); err != nil {
		return nil, err
	}
	kept := ""
	if typed.Spec.Metadata != nil {
		kept = string(typed.Spec.Metadata.Raw)
	}
	// The text of a record has the same form.
	record, err := metadata.Read(kept)
	if err != nil {
		return nil, err
	}
	record.ControlPlane = types.NamespacedName{Namespace: typed.Namespace, Name: typed.Spec.ControlPlane}
	record.Kind, record.Name, record.UID = typed.Spec.Kind, typed.Spec.Name, types.UID(typed.Spec.UID)
	// The earlier version used the id as the UID. Dependents of the object refer to it.
	record.ObjectUID = record.UID
	if typed.Spec.Intent != nil {
		record.Intent = typed.Spec.Intent.Raw
	}
	return record, nil
}
