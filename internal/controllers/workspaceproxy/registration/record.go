package registration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// Annotations on the Secret with the session token. None of them contains a secret.
const (
	// AnnotationProxyID is the id of the proxy in Coder. Without it the other annotations describe
	// a proxy that is about to be created.
	AnnotationProxyID = "coder.com/proxy-id"
	// AnnotationProxyName is the name of the proxy in Coder.
	AnnotationProxyName = "coder.com/proxy-name"
	// AnnotationCoderURL is the URL at which the operator reaches that Coder.
	AnnotationCoderURL = "coder.com/coder-url"
	// AnnotationThrough identifies the token with which the proxy was created:
	// CoderControlPlane/<name>, or Secret/<name>/<key>.
	AnnotationThrough = "coder.com/registered-through"
	// AnnotationAccessURL is the access URL of the Coder that the token is for.
	AnnotationAccessURL = "coder.com/primary-access-url"
	// AnnotationFormer are the registrations that must be removed, as JSON.
	AnnotationFormer = "coder.com/former-registrations"
)

// registration is one proxy in one Coder. Without an id it is a proxy that was about to be created.
type registration struct {
	URL     string `json:"url"`
	Through string `json:"through"`
	ID      string `json:"id,omitempty"`
	Name    string `json:"name"`
	// Since is when its removal was first tried, in RFC 3339.
	Since string `json:"since,omitempty"`
}

func (r registration) same(other registration) bool {
	if r.ID != "" || other.ID != "" {
		return r.ID == other.ID
	}
	return r.URL == other.URL && strings.EqualFold(r.Name, other.Name)
}

// empty reports whether there is no registration and none was about to be created.
func (r registration) empty() bool { return r.ID == "" && r.Name == "" }

// record is the content of the Secret.
type record struct {
	// secret is the Secret as the cluster has it, or nil if there is none.
	secret *corev1.Secret
	registration
	token     string
	accessURL string
	former    []registration
}

func readRecord(secret *corev1.Secret) *record {
	r := &record{
		secret: secret,
		registration: registration{
			URL:     secret.Annotations[AnnotationCoderURL],
			Through: secret.Annotations[AnnotationThrough],
			ID:      secret.Annotations[AnnotationProxyID],
			Name:    secret.Annotations[AnnotationProxyName],
		},
		token:     strings.TrimSpace(string(secret.Data[coderv1alpha1.SecretKeyToken])),
		accessURL: secret.Annotations[AnnotationAccessURL],
	}
	if r.Through == "" && r.ID == "" && r.accessURL == "" {
		// The public predecessor stored only the token. The token begins with the id.
		if id, ok := coderd.ProxyOfToken(r.token); ok {
			r.ID = id.String()
		}
	}
	// An invalid value is ignored, because it names nothing that could be removed.
	_ = json.Unmarshal([]byte(secret.Annotations[AnnotationFormer]), &r.former)
	return r
}

func (r *record) write(secret *corev1.Secret) (bool, error) {
	before := secret.DeepCopy()
	former := ""
	if len(r.former) > 0 {
		raw, err := json.Marshal(r.former)
		if err != nil {
			return false, err
		}
		former = string(raw)
	}
	ensure.Annotate(secret, map[string]string{
		AnnotationProxyID: r.ID, AnnotationProxyName: r.Name, AnnotationCoderURL: r.URL,
		AnnotationThrough: r.Through, AnnotationAccessURL: r.accessURL, AnnotationFormer: former,
	})
	if r.token != "" && strings.TrimSpace(string(secret.Data[coderv1alpha1.SecretKeyToken])) != r.token {
		ensure.SetValue(secret, coderv1alpha1.SecretKeyToken, r.token)
	}
	return !equality.Semantic.DeepEqual(before, secret), nil
}

func (r *record) copyOf() *record {
	c := *r
	c.former = slices.Clone(r.former)
	return &c
}

// replace makes next the registration, and records the previous one for removal.
func (r *record) replace(next registration) {
	if !r.empty() && !r.same(next) {
		r.leave(r.registration)
	}
	r.registration = next
	r.former = slices.DeleteFunc(r.former, next.same)
}

func (r *record) leave(former registration) {
	if !former.empty() && !slices.ContainsFunc(r.former, former.same) {
		r.former = append(r.former, former)
	}
}

// forget drops the registration with this id, so that it is not removed.
func (r *record) forget(id string) {
	is := func(one registration) bool { return one.ID == id }
	if is(r.registration) {
		r.registration = registration{}
	}
	r.former = slices.DeleteFunc(r.former, is)
}

func (r *record) all() []registration {
	var out []registration
	if !r.empty() {
		out = append(out, r.registration)
	}
	return append(out, r.former...)
}

// load reads the records of this proxy, without a registration that was handed over. The one with the
// wanted name comes first. There is more than one only while the Secret is being renamed.
func (p *pass) load(ctx context.Context) ([]*record, error) {
	wanted := resources.ProxyTokenSecretName(p.proxy)
	others, err := p.secrets.Others(ctx, p.Client, wanted, isRecord)
	if err != nil {
		return nil, err
	}
	var records []*record
	for _, secret := range others {
		records = append(records, readRecord(secret))
	}
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
	given, err := p.handedOver(ctx)
	if err != nil || given == "" {
		return records, err
	}
	for _, r := range records {
		r.forget(given)
	}
	return records, nil
}

func isRecord(secret *corev1.Secret) bool {
	return secret.Annotations[AnnotationThrough] != "" || secret.Annotations[AnnotationFormer] != ""
}

// settle merges the existing Secrets into one with the wanted name. It returns nil if there is
// none. Pods may still use the others: Retire deletes them.
func (p *pass) settle(ctx context.Context, records []*record) (*record, error) {
	if len(records) > 0 {
		p.use(records[0])
	}
	if p.foreign != nil {
		p.result.SecretForeign = true
		return nil, p.secrets.Taken("Secret", p.foreign, retryFailed, "give another name in spec.bootstrap.generatedTokenSecretName")
	}
	if len(records) == 0 {
		return nil, nil
	}
	kept := records[0]
	if wanted := resources.ProxyTokenSecretName(p.proxy); kept.secret.Name != wanted {
		moved := kept.copyOf()
		moved.secret = nil
		if err := p.save(ctx, moved); err != nil {
			return nil, err
		}
		kept, records = moved, append([]*record{moved}, records...)
	}
	for _, extra := range records[1:] {
		for _, r := range extra.all() {
			if !kept.same(r) {
				kept.leave(r)
			}
		}
		if err := p.save(ctx, kept); err != nil {
			return nil, err
		}
		p.result.Replaced = true
	}
	p.use(kept)
	return kept, nil
}

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
	changed, err := r.write(secret)
	if err != nil || !changed && r.secret != nil {
		return err
	}
	if err := p.secrets.Save(ctx, secret); err != nil {
		return err
	}
	r.secret = secret
	return nil
}
