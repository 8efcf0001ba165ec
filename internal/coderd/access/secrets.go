package access

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

// secretsOf returns access to the Secrets of a control plane, with their common labels.
func (m *Manager) secretsOf(cp *coderv1alpha1.CoderControlPlane) ownsecret.Secrets {
	return ownsecret.Secrets{
		Client: m.Client, Owner: cp, Kind: "CoderControlPlane", Noun: "control plane",
		Labels: coderv1alpha1.ControlPlaneLabels(cp.Name),
	}
}

// ownSecret reads a Secret of this control plane. It returns nil if the Secret does not exist. A
// Secret of that name that this control plane does not own stops the pass.
func (p *pass) ownSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := p.secrets.Get(ctx, name)
	if err != nil || secret == nil || p.secrets.Mine(secret) {
		return secret, err
	}
	return nil, p.notOwned("Secret", secret)
}

// notOwned returns an error that names the owner of an object whose name is already taken.
func (p *pass) notOwned(kind string, obj client.Object) error {
	if message, is := p.secrets.Leftover(kind, obj); is {
		return ensure.Waits(coderv1alpha1.ReasonWaiting, soon, "%s", message)
	}
	return ensure.Fails(coderv1alpha1.ReasonNotOwned, retryFailed,
		"%s %q exists and is %s, so it was not touched; delete it or give it another name", kind, obj.GetName(), ownsecret.Whose(obj))
}

// write puts values and annotations into a Secret, and creates the Secret if it is nil.
func (p *pass) write(ctx context.Context, secret *corev1.Secret, name string, values, annotations map[string]string) (*corev1.Secret, error) {
	if secret == nil {
		var err error
		if secret, err = p.secrets.New(name); err != nil {
			return nil, err
		}
	}
	for key, value := range values {
		ownsecret.Put(secret, key, value)
	}
	ownsecret.Annotate(secret, annotations)
	return secret, p.secrets.Save(ctx, secret)
}
