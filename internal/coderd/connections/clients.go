package connections

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// entry is the cached client of one control plane with its inputs.
type entry struct {
	client *coderd.Client
	madeOf source
	// readAt and version are the time when the token was read, and the control plane's
	// resourceVersion at that time.
	readAt  time.Time
	version string
	// refusedAt is the time when Coder refused the token. It is zero if Coder did not.
	refusedAt time.Time
}

// source is everything that a client depends on. The token is stored only as a hash.
type source struct {
	url       string
	tokenHash [sha256.Size]byte
}

// open returns the client of a control plane, or the reason why there is none yet.
func (d *Dynamic) open(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (c *coderd.Client, reason string) {
	if reason := notReady(cp); reason != "" {
		d.forget(cp.UID)
		return nil, reason
	}
	if c := d.known(cp, true); c != nil {
		return c, ""
	}
	token, reason, err := d.readToken(ctx, cp)
	if err != nil {
		// The API server fails at the moment. A client that worked stays in use.
		if c := d.known(cp, false); c != nil {
			return c, ""
		}
		return nil, reason
	}
	if reason != "" {
		d.forget(cp.UID)
		return nil, reason
	}
	return d.client(cp, token)
}

// known returns the cached client, unless Coder has refused its token. With fresh, it returns only
// a client whose token need not be read again.
func (d *Dynamic) known(cp *coderv1alpha1.CoderControlPlane, fresh bool) *coderd.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.clients[cp.UID]
	if !ok || !e.refusedAt.IsZero() || e.madeOf.url != cp.Status.URL {
		return nil
	}
	if fresh && (e.version != cp.ResourceVersion || d.opts.Clock.Since(e.readAt) >= TokenMaxAge) {
		return nil
	}
	return e.client
}

// readToken reads the token, or returns the reason why there is none. err is set if the failure may
// be temporary.
func (d *Dynamic) readToken(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (token, reason string, err error) {
	ref := cp.Status.OperatorTokenSecretRef
	key := cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
	var secret corev1.Secret
	err = d.secrets.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: ref.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Sprintf("Secret %q with its token does not exist", ref.Name), nil
	case apierrors.IsForbidden(err):
		return "", fmt.Sprintf("the operator has no permission to read Secret %q with its token", ref.Name), nil
	case err != nil:
		return "", fmt.Sprintf("Secret %q with its token cannot be read now: %v", ref.Name, err), err
	}
	token = strings.TrimSpace(string(secret.Data[key]))
	if token == "" {
		return "", fmt.Sprintf("Secret %q has no token under the key %q", ref.Name, key), nil
	}
	return token, "", nil
}

// client returns the client for a token that was just read.
func (d *Dynamic) client(cp *coderv1alpha1.CoderControlPlane, token string) (c *coderd.Client, reason string) {
	want := source{url: cp.Status.URL, tokenHash: sha256.Sum256([]byte(token))}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.opts.Clock.Now()
	if e, ok := d.clients[cp.UID]; ok && e.madeOf == want {
		switch {
		case e.refusedAt.IsZero():
			e.readAt, e.version = now, cp.ResourceVersion
			return e.client, ""
		case now.Sub(e.refusedAt) < RefusedFor:
			return nil, "Coder does not accept the operator's token"
		}
	}
	e := &entry{madeOf: want, readAt: now, version: cp.ResourceVersion}
	var err error
	controlPlane := client.ObjectKeyFromObject(cp)
	e.client, err = d.opts.NewClient(coderd.Config{
		URL:            cp.Status.URL,
		Token:          token,
		Timeout:        d.opts.Timeout,
		OnUnauthorized: func() { d.refuse(e, controlPlane) },
		OnUnreachable: func() {
			if d.opts.OnUnreachable != nil {
				d.opts.OnUnreachable(controlPlane)
			}
		},
	})
	if err != nil {
		return nil, err.Error()
	}
	d.clients[cp.UID] = e
	return e.client, ""
}

// refuse drops a client whose token Coder refused, and calls OnUnauthorized once for it.
func (d *Dynamic) refuse(e *entry, controlPlane types.NamespacedName) {
	d.mu.Lock()
	first := e.refusedAt.IsZero()
	if first {
		e.refusedAt = d.opts.Clock.Now()
	}
	d.mu.Unlock()
	if first && d.opts.OnUnauthorized != nil {
		d.opts.OnUnauthorized(controlPlane)
	}
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
