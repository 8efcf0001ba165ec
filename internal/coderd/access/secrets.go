package access

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// ownSecret reads a Secret of this control plane. It is nil where there is none.
// A Secret of that name which is not this control plane's stops the pass.
func (p *pass) ownSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := p.readSecret(ctx, name)
	if err != nil || secret == nil || metav1.IsControlledBy(secret, p.cp) {
		return secret, err
	}
	return nil, p.notOwned("Secret", secret)
}

// readSecret reads a Secret, whoever's it is. It is nil where there is none.
func (p *pass) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.cp.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return secret, nil
}

// notOwned says whose an object is that stands where one of ours belongs.
func (p *pass) notOwned(kind string, obj client.Object) error {
	owner := metav1.GetControllerOf(obj)
	if owner != nil && owner.Kind == "CoderControlPlane" && owner.Name == p.cp.Name && owner.UID != p.cp.UID {
		return waiting(coderv1alpha1.ReasonWaiting, soon,
			"%s %q belongs to a deleted control plane of the same name; waiting for the garbage collection to remove it", kind, obj.GetName())
	}
	whose := "nobody's"
	if owner != nil {
		whose = fmt.Sprintf("of %s %q", owner.Kind, owner.Name)
	}
	return failed(coderv1alpha1.ReasonNotOwned, retryFailed,
		"%s %q exists and is %s, so it was not touched; delete it or give it another name", kind, obj.GetName(), whose)
}

// newSecret is a Secret of this control plane that does not exist yet.
func (p *pass) newSecret(name string, values map[string]string) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.cp.Namespace,
			Name:      name,
			Labels:    p.labels(),
		},
		Type: corev1.SecretTypeOpaque,
	}
	setValues(secret, values)
	if err := controllerutil.SetControllerReference(p.cp, secret, p.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("owning Secret %q: %w", name, err)
	}
	return secret, nil
}

func setValues(secret *corev1.Secret, values map[string]string) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range values {
		secret.Data[key] = []byte(value)
	}
}

// annotate sets annotations and removes those whose value is empty.
func annotate(obj client.Object, values map[string]string) {
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

func (p *pass) createSecret(ctx context.Context, secret *corev1.Secret) error {
	if err := p.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating Secret %q: %w", secret.Name, err)
	}
	return nil
}

// updateSecret writes a Secret that was read in this pass. It fails where it was
// changed since; the next pass looks at it again.
func (p *pass) updateSecret(ctx context.Context, secret *corev1.Secret) error {
	if err := p.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating Secret %q: %w", secret.Name, err)
	}
	return nil
}

// deleteSecret deletes a Secret that was read in this pass, and only that one.
func (p *pass) deleteSecret(ctx context.Context, secret *corev1.Secret) error {
	uid := secret.UID
	err := p.Client.Delete(ctx, secret, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Secret %q: %w", secret.Name, err)
	}
	return nil
}

// labels are on every Secret of this control plane.
func (p *pass) labels() map[string]string {
	return map[string]string{
		coderv1alpha1.LabelName:      coderv1alpha1.ControlPlaneName,
		coderv1alpha1.LabelInstance:  p.cp.Name,
		coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
	}
}
