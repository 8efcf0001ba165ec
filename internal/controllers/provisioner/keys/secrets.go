package keys

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

// notOwned says whose a Secret is that stands where ours belongs.
func (p *pass) notOwned(secret *corev1.Secret) Finding {
	if message, is := p.secrets.Leftover("Secret", secret); is {
		return fails(coderv1alpha1.ReasonWaiting, message)
	}
	return fails(coderv1alpha1.ReasonNotOwned, fmt.Sprintf(
		"Secret %q exists and is %s, so it was not touched; delete it, or choose another spec.key.secretName", secret.Name, ownsecret.Whose(secret)))
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

// marked says that the operator keeps its record on an object.
func marked(obj client.Object) bool {
	for _, annotation := range []string{coderv1alpha1.AnnotationProvisionerKeyID, AnnotationIntent, AnnotationReplaced} {
		if obj.GetAnnotations()[annotation] != "" {
			return true
		}
	}
	return false
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
	maps.Copy(s.secret.Labels, p.secrets.Labels)
	return p.secrets.Save(ctx, s.secret)
}
