package ownsecret

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

// Secrets are those of one owner, in its namespace. Client and Owner are required.
type Secrets struct {
	// Client reads uncached, and knows the kind of the owner.
	Client client.Client
	Owner  client.Object
	// Kind is that of the owner, and Noun what it is called in a sentence.
	Kind, Noun string
	// Labels are on each new Secret.
	Labels map[string]string
}

// Get reads a Secret, whoever's it is. It is nil where there is none.
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

// GetMine reads a Secret where it is the owner's. Somebody else's is as good as
// none.
func (s Secrets) GetMine(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Get(ctx, name)
	if err != nil || secret == nil || !s.Mine(secret) {
		return nil, err
	}
	return secret, nil
}

// Mine says that an object is the owner's.
func (s Secrets) Mine(obj metav1.Object) bool { return metav1.IsControlledBy(obj, s.Owner) }

// New is an empty Secret of the owner that does not exist yet.
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

// Save creates a Secret that is new, and writes one that was read. It fails where
// that was changed since; the next pass looks at it again.
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

// Delete deletes a Secret that was read, and only that one.
func (s Secrets) Delete(ctx context.Context, secret *corev1.Secret) error {
	uid := secret.UID
	err := s.Client.Delete(ctx, secret, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Secret %q: %w", secret.Name, err)
	}
	return nil
}

// Leftover says that an object which is not the owner's belongs to a deleted one
// of the same name, so that it goes by itself. The message tells that.
func (s Secrets) Leftover(kind string, obj metav1.Object) (message string, is bool) {
	controller := metav1.GetControllerOf(obj)
	if controller == nil || controller.Kind != s.Kind || controller.Name != s.Owner.GetName() || controller.UID == s.Owner.GetUID() {
		return "", false
	}
	return fmt.Sprintf("%s %q belongs to a deleted %s of the same name; waiting for the garbage collection to remove it",
		kind, obj.GetName(), s.Noun), true
}

// Whose says to whom an object belongs: nobody's, or of an object of which it
// gives kind and name.
func Whose(obj metav1.Object) string {
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

// Put sets one value of a Secret.
func Put(secret *corev1.Secret, key, value string) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[key] = []byte(value)
}
