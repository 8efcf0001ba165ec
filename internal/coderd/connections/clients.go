package connections

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// defaultTokenKey is the key of a token in a Secret where none is named.
const defaultTokenKey = "token"

// entry is the client of one control plane and what it was made of.
type entry struct {
	madeOf source
	client *coderd.Client
	// refused is set when Coder answers 401 to this client. The token is read
	// again then, and the same token is not tried for ever.
	refused bool
}

// source is everything that a client depends on. The token itself is kept only
// as a hash.
type source struct {
	url       string
	tokenHash [sha256.Size]byte
}

// open gives the connection of a control plane, or why there is none yet. An
// error means that nothing could be found out.
func (d *Dynamic) open(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (Connection, string, error) {
	if reason := notReady(cp); reason != "" {
		d.forget(cp.UID)
		return Connection{}, reason, nil
	}
	token, reason, err := d.readToken(ctx, cp)
	if err != nil || reason != "" {
		return Connection{}, reason, err
	}
	c, reason := d.client(cp, token)
	if reason != "" {
		return Connection{}, reason, nil
	}
	return Connection{
		ControlPlane: types.NamespacedName{Namespace: cp.Namespace, Name: cp.Name},
		NamePrefix:   *cp.Status.ObjectNamePrefix,
		Client:       c,
	}, "", nil
}

func (d *Dynamic) readToken(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (token, reason string, err error) {
	ref := cp.Status.OperatorTokenSecretRef
	key := ref.Key
	if key == "" {
		key = defaultTokenKey
	}
	var secret corev1.Secret
	err = d.secrets.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: ref.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Sprintf("Secret %q with its token does not exist", ref.Name), nil
	case err != nil:
		return "", fmt.Sprintf("Secret %q with its token cannot be read: %v", ref.Name, apierrors.ReasonForError(err)), nil
	}
	token = strings.TrimSpace(string(secret.Data[key]))
	if token == "" {
		return "", fmt.Sprintf("Secret %q has no token under the key %q", ref.Name, key), nil
	}
	return token, "", nil
}

func (d *Dynamic) client(cp *coderv1alpha1.CoderControlPlane, token string) (c *coderd.Client, reason string) {
	want := source{url: cp.Status.URL, tokenHash: sha256.Sum256([]byte(token))}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.clients[cp.UID]; ok && e.madeOf == want {
		if e.refused {
			return nil, "Coder does not accept the operator's token"
		}
		return e.client, ""
	}
	e := &entry{madeOf: want}
	var err error
	e.client, err = d.opts.NewClient(coderd.Config{
		URL:            cp.Status.URL,
		Token:          token,
		Timeout:        d.opts.Timeout,
		UserAgent:      d.opts.UserAgent,
		OnUnauthorized: func() { d.refuse(e) },
	})
	if err != nil {
		return nil, err.Error()
	}
	d.clients[cp.UID] = e
	return e.client, ""
}

func (d *Dynamic) refuse(e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.refused = true
}

func (d *Dynamic) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clients, uid)
}

func (d *Dynamic) forgetAllBut(items []coderv1alpha1.CoderControlPlane) {
	present := make(map[types.UID]bool, len(items))
	for i := range items {
		present[items[i].UID] = Served(&items[i])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid := range d.clients {
		if !present[uid] {
			delete(d.clients, uid)
		}
	}
}
