package ensure

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Secrets reads and writes the Secrets of one owner in its namespace. Client and Owner are
// required.
type Secrets struct {
	// Client reads without a cache. Its scheme contains the kind of the owner.
	Client client.Client
	Owner  client.Object
	// Kind is the kind of the owner, and Noun its name in messages.
	Kind, Noun string
	// Labels are set on each new Secret.
	Labels map[string]string
}

// Get reads a Secret of any owner. It returns nil if there is none.
func (s Secrets) Get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Owner.GetNamespace(), Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return secret, nil
}

// GetMine reads a Secret of the owner. It returns nil if there is none or another owner has it.
func (s Secrets) GetMine(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Get(ctx, name)
	if err != nil || secret == nil || !s.Mine(secret) {
		return nil, err
	}
	return secret, nil
}

// Mine reports whether the owner controls an object.
func (s Secrets) Mine(obj metav1.Object) bool { return metav1.IsControlledBy(obj, s.Owner) }

// New returns an empty Secret of the owner that does not exist yet.
func (s Secrets) New(name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Owner.GetNamespace(), Name: name, Labels: maps.Clone(s.Labels)},
		Type:       corev1.SecretTypeOpaque,
	}
	if err := controllerutil.SetControllerReference(s.Owner, secret, s.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("owning Secret %q: %w", name, err)
	}
	return secret, nil
}

// Save creates a new Secret, or updates one that was read. It fails if the Secret was changed since
// it was read. The next pass reads it again.
func (s Secrets) Save(ctx context.Context, secret *corev1.Secret) error {
	if secret.ResourceVersion == "" {
		if err := s.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating Secret %q: %w", secret.Name, err)
		}
		return nil
	}
	if err := s.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating Secret %q: %w", secret.Name, err)
	}
	return nil
}

// Delete deletes a Secret that was read, and not a replacement with the same name.
func (s Secrets) Delete(ctx context.Context, secret *corev1.Secret) error {
	uid := secret.UID
	err := s.Client.Delete(ctx, secret, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Secret %q: %w", secret.Name, err)
	}
	return nil
}

// Leftover reports whether an object that the owner does not control belongs to a deleted owner of
// the same name. The garbage collector will delete such an object, and message reports that.
func (s Secrets) Leftover(kind string, obj metav1.Object) (message string, is bool) {
	controller := metav1.GetControllerOf(obj)
	if controller == nil || controller.Kind != s.Kind || controller.Name != s.Owner.GetName() || controller.UID == s.Owner.GetUID() {
		return "", false
	}
	return fmt.Sprintf("%s %q belongs to a deleted %s of the same name; waiting for the garbage collection to remove it",
		kind, obj.GetName(), s.Noun), true
}

// OwnerOf returns "nobody's", or "of" with the kind and name of the controller.
func OwnerOf(obj metav1.Object) string {
	controller := metav1.GetControllerOf(obj)
	if controller == nil {
		return "nobody's"
	}
	return fmt.Sprintf("of %s %q", controller.Kind, controller.Name)
}

// Annotate sets annotations and removes those whose value is empty.
func Annotate(obj metav1.Object, values map[string]string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range values {
		if value == "" {
			delete(annotations, key)
		} else {
			annotations[key] = value
		}
	}
	obj.SetAnnotations(annotations)
}

// SetValue sets one value of a Secret.
func SetValue(secret *corev1.Secret, key, value string) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[key] = []byte(value)
}
