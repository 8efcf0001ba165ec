package keys

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/resources"
)

// read reads a Secret, whoever's it is. It is nil where there is none.
func (p *pass) read(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.cr.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return secret, nil
}

// notOwned says whose a Secret is that stands where ours belongs.
func (p *pass) notOwned(secret *corev1.Secret) Finding {
	owner := metav1.GetControllerOf(secret)
	if owner != nil && owner.Kind == "CoderProvisioner" && owner.Name == p.cr.Name {
		return fails(coderv1alpha1.ReasonWaiting, fmt.Sprintf(
			"Secret %q belongs to a deleted CoderProvisioner of the same name; waiting for the garbage collection to remove it", secret.Name))
	}
	whose := "nobody's"
	if owner != nil {
		whose = fmt.Sprintf("of %s %q", owner.Kind, owner.Name)
	}
	return fails(coderv1alpha1.ReasonNotOwned, fmt.Sprintf(
		"Secret %q exists and is %s, so it was not touched; delete it, or choose another spec.key.secretName", secret.Name, whose))
}

// others are the Secrets of this provisioner that hold a key of the operator's,
// besides the one of the present name: those of earlier names. What the list says
// of them may hold no annotations, so each is read.
func (p *pass) others(ctx context.Context) ([]*stored, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := p.metadata().List(ctx, list, client.InNamespace(p.cr.Namespace), client.MatchingLabels(resources.Labels(p.cr.Name)))
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of the CoderProvisioner: %w", err)
	}
	var found []*stored
	for i := range list.Items {
		item := &list.Items[i]
		if item.Name == resources.KeySecretName(p.cr) || !metav1.IsControlledBy(item, p.cr) {
			continue
		}
		secret, err := p.read(ctx, item.Name)
		if err != nil {
			return nil, err
		}
		if secret != nil && metav1.IsControlledBy(secret, p.cr) && marked(secret) {
			found = append(found, readStored(secret, resources.KeySecretKey(p.cr)))
		}
	}
	return found, nil
}

// marked says that the operator keeps its record on an object.
func marked(obj client.Object) bool {
	for _, annotation := range []string{coderv1alpha1.AnnotationProvisionerKeyID, AnnotationIntent, AnnotationReplaced} {
		if obj.GetAnnotations()[annotation] != "" {
			return true
		}
	}
	return false
}

// newSecret is a Secret of this provisioner that does not exist yet.
func (p *pass) newSecret() (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.cr.Namespace, Name: resources.KeySecretName(p.cr), Labels: resources.Labels(p.cr.Name),
		},
		Type: corev1.SecretTypeOpaque,
	}
	if err := controllerutil.SetControllerReference(p.cr, secret, p.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("owning Secret %q: %w", secret.Name, err)
	}
	return secret, nil
}

// save writes the Secret, with what is known beside the key itself. It fails where
// it was changed since it was read; the next pass looks at it again.
func (p *pass) save(ctx context.Context, s *stored) error {
	s.write()
	// By its labels it is found again where the spec names another Secret. One that
	// the public predecessor made may have others.
	if s.secret.Labels == nil {
		s.secret.Labels = map[string]string{}
	}
	maps.Copy(s.secret.Labels, resources.Labels(p.cr.Name))
	if s.secret.ResourceVersion == "" {
		if err := p.Client.Create(ctx, s.secret); err != nil {
			return fmt.Errorf("creating Secret %q: %w", s.secret.Name, err)
		}
		return nil
	}
	if err := p.Client.Update(ctx, s.secret); err != nil {
		return fmt.Errorf("updating Secret %q: %w", s.secret.Name, err)
	}
	return nil
}

// remove deletes a Secret that was read in this pass, and only that one.
func (p *pass) remove(ctx context.Context, secret *corev1.Secret) error {
	uid := secret.UID
	err := p.Client.Delete(ctx, secret, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Secret %q: %w", secret.Name, err)
	}
	return nil
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
