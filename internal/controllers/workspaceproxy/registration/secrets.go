package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// load reads the records of this proxy. The one with the wanted name comes first. There is more
// than one only while the Secret is being renamed.
func (p *pass) load(ctx context.Context) ([]*record, error) {
	list := &corev1.SecretList{}
	if err := p.Client.List(ctx, list, client.InNamespace(p.proxy.Namespace), client.MatchingLabels(p.secrets.Labels)); err != nil {
		return nil, fmt.Errorf("listing the Secrets with session tokens: %w", err)
	}
	wanted := resources.TokenSecretName(p.proxy)
	var records []*record
	for i := range list.Items {
		secret := &list.Items[i]
		if secret.Name != wanted && isRecord(secret) && p.secrets.Mine(secret) {
			records = append(records, readRecord(secret))
		}
	}
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(a.secret.Name, b.secret.Name) })
	// It is read by name, because the public predecessor set no labels on it.
	secret, err := p.secrets.Get(ctx, wanted)
	if err != nil {
		return nil, err
	}
	switch {
	case secret == nil:
	case p.secrets.Mine(secret):
		records = append([]*record{readRecord(secret)}, records...)
	default:
		p.foreign = secret
	}
	return records, nil
}

func isRecord(secret *corev1.Secret) bool {
	return secret.Annotations[AnnotationThrough] != "" || secret.Annotations[AnnotationFormer] != ""
}

// settle merges the existing Secrets into one with the wanted name. It returns nil if there is
// none.
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
		if err := p.secrets.Delete(ctx, extra.secret); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// save writes a record if that changes the Secret. It fails if the Secret was changed since it was
// read. The next pass reads it again.
func (p *pass) save(ctx context.Context, r *record) error {
	if r.secret == nil {
		return p.create(ctx, r)
	}
	secret := r.secret.DeepCopy()
	changed, err := r.write(secret)
	if err != nil || !changed {
		return err
	}
	if err := p.secrets.Save(ctx, secret); err != nil {
		return err
	}
	r.secret = secret
	return nil
}

func (p *pass) create(ctx context.Context, r *record) error {
	secret, err := p.secrets.New(resources.TokenSecretName(p.proxy))
	if err != nil {
		return err
	}
	if _, err := r.write(secret); err != nil {
		return err
	}
	if err := p.secrets.Save(ctx, secret); err != nil {
		return err
	}
	r.secret = secret
	return nil
}

// notOwned returns an error that names the owner of a Secret that has the wanted name.
func (p *pass) notOwned(secret *corev1.Secret) error {
	if message, is := p.secrets.Leftover("Secret", secret); is {
		return outcome.Waits(coderv1alpha1.ReasonWaiting, retrySoon, "%s", message)
	}
	whose := "was not made by this operator"
	if owner := metav1.GetControllerOf(secret); owner != nil {
		whose = fmt.Sprintf("belongs to %s %q", owner.Kind, owner.Name)
	}
	return outcome.Fails(coderv1alpha1.ReasonNotOwned, retryFailed,
		"Secret %q %s, so it was not touched; delete it, or give another name in spec.bootstrap.generatedTokenSecretName", secret.Name, whose)
}
