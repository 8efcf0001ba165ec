package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/resources"
)

// load reads the records of this proxy, that of the wanted name first. There is
// more than one only while the Secret gets another name.
func (p *pass) load(ctx context.Context) ([]*record, error) {
	list := &corev1.SecretList{}
	if err := p.Client.List(ctx, list, client.InNamespace(p.proxy.Namespace), client.MatchingLabels(resources.Labels(p.proxy))); err != nil {
		return nil, fmt.Errorf("listing the Secrets with session tokens: %w", err)
	}
	wanted := resources.TokenSecretName(p.proxy)
	var records []*record
	for i := range list.Items {
		secret := &list.Items[i]
		if secret.Name != wanted && isRecord(secret) && metav1.IsControlledBy(secret, p.proxy) {
			records = append(records, readRecord(secret))
		}
	}
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(a.secret.Name, b.secret.Name) })
	// By name, because the public predecessor put no labels on it.
	secret, err := p.readSecret(ctx, wanted)
	if err != nil {
		return nil, err
	}
	switch {
	case secret == nil:
	case metav1.IsControlledBy(secret, p.proxy):
		records = append([]*record{readRecord(secret)}, records...)
	default:
		p.foreign = secret
	}
	return records, nil
}

func isRecord(secret *corev1.Secret) bool {
	return secret.Annotations[AnnotationThrough] != "" || secret.Annotations[AnnotationFormer] != ""
}

// settle makes one Secret, of the wanted name, of those that are there. It is nil
// where there is none.
func (p *pass) settle(ctx context.Context, records []*record) (*record, error) {
	if len(records) > 0 {
		p.use(records[0])
	}
	if p.foreign != nil {
		p.result.SecretForeign = true
		return nil, p.notOwned(p.foreign)
	}
	if len(records) == 0 {
		return nil, nil
	}
	kept := records[0]
	if wanted := resources.TokenSecretName(p.proxy); kept.secret.Name != wanted {
		moved := kept.copyOf()
		moved.secret = nil
		if err := p.save(ctx, moved); err != nil {
			return nil, err
		}
		kept, records = moved, append([]*record{moved}, records...)
		p.use(kept)
	}
	for _, extra := range records[1:] {
		for _, r := range extra.all() {
			if !kept.same(r) {
				kept.leave(r, p.timestamp())
			}
		}
		if err := p.save(ctx, kept); err != nil {
			return nil, err
		}
		if err := p.deleteSecret(ctx, extra.secret); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// save writes a record, if that changes anything. It fails where the Secret was
// written since it was read; the next pass looks at it again.
func (p *pass) save(ctx context.Context, r *record) error {
	if r.secret == nil {
		return p.create(ctx, r)
	}
	secret := r.secret.DeepCopy()
	changed, err := r.write(secret)
	if err != nil || !changed {
		return err
	}
	if err := p.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating Secret %q: %w", secret.Name, err)
	}
	r.secret = secret
	return nil
}

func (p *pass) create(ctx context.Context, r *record) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.proxy.Namespace, Name: resources.TokenSecretName(p.proxy), Labels: resources.Labels(p.proxy),
		},
		Type: corev1.SecretTypeOpaque,
	}
	if _, err := r.write(secret); err != nil {
		return err
	}
	if err := controllerutil.SetControllerReference(p.proxy, secret, p.Client.Scheme()); err != nil {
		return fmt.Errorf("owning Secret %q: %w", secret.Name, err)
	}
	if err := p.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating Secret %q: %w", secret.Name, err)
	}
	r.secret = secret
	return nil
}

// readSecret reads a Secret, whoever's it is. It is nil where there is none.
func (p *pass) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.proxy.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return secret, nil
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

// notOwned says whose a Secret is that stands where ours belongs.
func (p *pass) notOwned(secret *corev1.Secret) error {
	owner := metav1.GetControllerOf(secret)
	if owner != nil && owner.Kind == "CoderWorkspaceProxy" && owner.Name == p.proxy.Name && owner.UID != p.proxy.UID {
		return waiting(coderv1alpha1.ReasonWaiting, retrySoon,
			"Secret %q belongs to a deleted workspace proxy of the same name; waiting for the garbage collection to remove it", secret.Name)
	}
	whose := "was not made by this operator"
	if owner != nil {
		whose = fmt.Sprintf("belongs to %s %q", owner.Kind, owner.Name)
	}
	return failed(coderv1alpha1.ReasonNotOwned, retryFailed,
		"Secret %q %s, so it was not touched; delete it, or give another name in spec.bootstrap.generatedTokenSecretName", secret.Name, whose)
}
