package keys

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

// notOwned returns a finding that names the owner of a Secret that has the wanted name.
func (p *pass) notOwned(secret *corev1.Secret) Finding {
	if message, is := p.secrets.Leftover("Secret", secret); is {
		return fails(coderv1alpha1.ReasonWaiting, message)
	}
	return fails(coderv1alpha1.ReasonNotOwned, fmt.Sprintf(
		"Secret %q exists and is %s, so it was not touched; delete it, or choose another spec.key.secretName", secret.Name, ownsecret.Whose(secret)))
}

// others returns the Secrets with earlier names in which this provisioner has a key of the
// operator. The list may contain no annotations, so each Secret is read.
func (p *pass) others(ctx context.Context) ([]*stored, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := p.metadata().List(ctx, list, client.InNamespace(p.cr.Namespace), client.MatchingLabels(resources.ProvisionerLabels(p.cr.Name)))
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of the CoderProvisioner: %w", err)
	}
	var found []*stored
	for i := range list.Items {
		item := &list.Items[i]
		if item.Name == resources.KeySecretName(p.cr) || !p.secrets.Mine(item) {
			continue
		}
		secret, err := p.secrets.GetMine(ctx, item.Name)
		if err != nil {
			return nil, err
		}
		if secret != nil && marked(secret) {
			found = append(found, readStored(secret, resources.KeySecretKey(p.cr)))
		}
	}
	return found, nil
}

// marked reports whether an object has a record of the operator in its annotations.
func marked(obj client.Object) bool {
	for _, annotation := range []string{coderv1alpha1.AnnotationProvisionerKeyID, AnnotationIntent, AnnotationReplaced} {
		if obj.GetAnnotations()[annotation] != "" {
			return true
		}
	}
	return false
}

// save writes the Secret with the record of the key. It fails if the Secret was changed since it
// was read. The next pass reads it again.
func (p *pass) save(ctx context.Context, s *stored) error {
	s.write()
	// The labels are needed to find this Secret after the spec names another one. A Secret of the
	// public predecessor may have other labels.
	if s.secret.Labels == nil {
		s.secret.Labels = map[string]string{}
	}
	maps.Copy(s.secret.Labels, p.secrets.Labels)
	return p.secrets.Save(ctx, s.secret)
}
