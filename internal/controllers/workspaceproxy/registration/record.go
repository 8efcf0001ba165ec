package registration

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

// Annotations on the Secret with the session token. None of them is a secret.
const (
	// AnnotationProxyID is the id of the proxy in Coder. Without it the other ones
	// say what is about to be created.
	AnnotationProxyID = "coder.com/proxy-id"
	// AnnotationProxyName is its name in Coder.
	AnnotationProxyName = "coder.com/proxy-name"
	// AnnotationCoderURL is where the operator reaches that Coder.
	AnnotationCoderURL = "coder.com/coder-url"
	// AnnotationThrough is with whose token: CoderControlPlane/<name>, or
	// Secret/<name>/<key>.
	AnnotationThrough = "coder.com/registered-through"
	// AnnotationAccessURL is the access URL of the Coder that the token is for.
	AnnotationAccessURL = "coder.com/primary-access-url"
	// AnnotationFormer are the registrations that are to be removed, as JSON.
	AnnotationFormer = "coder.com/former-registrations"
)

// registration is one proxy in one Coder. Without an id it is one that was about
// to be created.
type registration struct {
	URL     string `json:"url"`
	Through string `json:"through"`
	ID      string `json:"id,omitempty"`
	Name    string `json:"name"`
	// Since is when the spec stopped to want it, in RFC 3339.
	Since string `json:"since,omitempty"`
}

// same says that both are one proxy.
func (r registration) same(other registration) bool {
	if r.ID != "" || other.ID != "" {
		return r.ID == other.ID
	}
	return r.URL == other.URL && strings.EqualFold(r.Name, other.Name)
}

// empty says that there is no registration and none was about to be made.
func (r registration) empty() bool { return r.ID == "" && r.Name == "" }

// record is what the Secret says.
type record struct {
	// secret is as the cluster has it, or nil where there is none.
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
		// The public predecessor wrote the token alone, and it begins with the id.
		if id, ok := coderd.ProxyOfToken(r.token); ok {
			r.ID = id.String()
		}
	}
	// What cannot be read is nothing that anybody could remove.
	_ = json.Unmarshal([]byte(secret.Annotations[AnnotationFormer]), &r.former)
	return r
}

// write puts the record into a Secret. It says whether that changed it.
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
	ownsecret.Annotate(secret, map[string]string{
		AnnotationProxyID: r.ID, AnnotationProxyName: r.Name, AnnotationCoderURL: r.URL,
		AnnotationThrough: r.Through, AnnotationAccessURL: r.accessURL, AnnotationFormer: former,
	})
	if r.token != "" && strings.TrimSpace(string(secret.Data[coderv1alpha1.SecretKeyToken])) != r.token {
		ownsecret.Put(secret, coderv1alpha1.SecretKeyToken, r.token)
	}
	return !equality.Semantic.DeepEqual(before, secret), nil
}

// copyOf is a record that can be changed without changing this one.
func (r *record) copyOf() *record {
	c := *r
	c.former = slices.Clone(r.former)
	return &c
}

// replace makes next the registration, and remembers the one before it so that it
// will be removed.
func (r *record) replace(next registration, now string) {
	if !r.empty() && !r.same(next) {
		r.leave(r.registration, now)
	}
	r.registration = next
	r.former = slices.DeleteFunc(r.former, next.same)
}

// leave remembers a registration that is to be removed.
func (r *record) leave(former registration, now string) {
	former.Since = now
	if !former.empty() && !slices.ContainsFunc(r.former, former.same) {
		r.former = append(r.former, former)
	}
}

// all are the registration and the former ones.
func (r *record) all() []registration {
	var out []registration
	if !r.empty() {
		out = append(out, r.registration)
	}
	return append(out, r.former...)
}
