package ensure

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// soon is the time to wait for the garbage collector or another process.
const soon = 5 * time.Second

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

// CheckOwner returns a Stop if the owner is being deleted or gone. A stale cache may still contain it.
// No later pass would remove what is created in Coder for such an owner.
func (s Secrets) CheckOwner(ctx context.Context) error {
	kind, _ := apiutil.GVKForObject(s.Owner, s.Client.Scheme())
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(s.Owner), live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %q: %w", s.Kind, s.Owner.GetName(), err)
	}
	if err != nil || live.UID != s.Owner.GetUID() || !live.DeletionTimestamp.IsZero() {
		return Waits(coderv1alpha1.ReasonDeleting, soon, "the %s is being deleted", s.Noun)
	}
	return nil
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

// CheckUnchanged returns a Stop if a Secret changed since this pass read it. read is nil if there was
// none. A process that was paused and is no longer the leader must not replace what the new leader
// stored.
func (s Secrets) CheckUnchanged(ctx context.Context, name string, read *corev1.Secret) error {
	secret, err := s.Get(ctx, name)
	if err != nil {
		return err
	}
	if secret == nil && read == nil || secret != nil && read != nil && secret.ResourceVersion == read.ResourceVersion {
		return nil
	}
	return Waits(coderv1alpha1.ReasonWaiting, soon, "Secret %q changed while a token was being created", name)
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

// Delete deletes a Secret that was read. It fails if the Secret was changed or replaced since it was
// read. The next pass reads it again.
func (s Secrets) Delete(ctx context.Context, secret *corev1.Secret) error {
	err := s.Client.Delete(ctx, secret, client.Preconditions{UID: new(secret.UID), ResourceVersion: new(secret.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Secret %q: %w", secret.Name, err)
	}
	return nil
}

// Taken returns the Stop for an object that has the wanted name and that the owner does not control.
// The garbage collector will delete an object of a deleted owner of the same name. In any other case
// a user must act, as remedy says.
func (s Secrets) Taken(kind string, obj metav1.Object, after time.Duration, remedy string) *Stop {
	whose := "has no owner"
	if controller := metav1.GetControllerOf(obj); controller != nil {
		if controller.Kind == s.Kind && controller.Name == s.Owner.GetName() && controller.UID != s.Owner.GetUID() {
			return Waits(coderv1alpha1.ReasonWaiting, soon,
				"%s %q belongs to a deleted %s of the same name; waiting for the garbage collection to remove it", kind, obj.GetName(), s.Noun)
		}
		whose = fmt.Sprintf("belongs to %s %q", controller.Kind, controller.Name)
	}
	return Fails(coderv1alpha1.ReasonNotOwned, after, "%s %q exists and %s, so it was not changed; delete it, or %s", kind, obj.GetName(), whose, remedy)
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
