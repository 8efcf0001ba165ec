package registration

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// Annotations on the Secret with the session token. None of them contains a secret.
const (
	// AnnotationProxyID is the id of the proxy in Coder. Without it, AnnotationProxyName is the name of
	// a proxy that is about to be created.
	AnnotationProxyID = "coder.com/proxy-id"
	// AnnotationProxyName is the name of the proxy in Coder.
	AnnotationProxyName = "coder.com/proxy-name"
)

// record is the content of the Secret.
type record struct {
	// secret is the Secret as the cluster has it, or nil if there is none.
	secret          *corev1.Secret
	id, name, token string
}

// readRecord returns an empty record if there is no Secret.
func readRecord(secret *corev1.Secret) *record {
	if secret == nil {
		return &record{}
	}
	r := &record{
		secret: secret,
		id:     secret.Annotations[AnnotationProxyID],
		name:   secret.Annotations[AnnotationProxyName],
		token:  strings.TrimSpace(string(secret.Data[coderv1alpha1.SecretKeyToken])),
	}
	if r.empty() {
		// The public predecessor stored only the token. The token begins with the id.
		if id, ok := coderd.ProxyOfToken(r.token); ok {
			r.id = id.String()
		}
	}
	return r
}

// empty reports whether there is no registration and none was about to be created.
func (r *record) empty() bool { return r.id == "" && r.name == "" }

// save writes a record if that changes the Secret, and creates the Secret if there is none. It fails
// if the Secret was changed since it was read. The next pass reads it again.
func (p *pass) save(ctx context.Context, r *record) error {
	secret := r.secret.DeepCopy()
	if secret == nil {
		var err error
		if secret, err = p.secrets.New(resources.ProxyTokenSecretName(p.proxy)); err != nil {
			return err
		}
	}
	ensure.Annotate(secret, map[string]string{AnnotationProxyID: r.id, AnnotationProxyName: r.name})
	if r.token != "" && strings.TrimSpace(string(secret.Data[coderv1alpha1.SecretKeyToken])) != r.token {
		ensure.SetValue(secret, coderv1alpha1.SecretKeyToken, r.token)
	}
	if r.secret != nil && equality.Semantic.DeepEqual(r.secret, secret) {
		return nil
	}
	if err := p.secrets.Save(ctx, secret); err != nil {
		return err
	}
	r.secret = secret
	return nil
}
