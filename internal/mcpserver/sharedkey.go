package mcpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// keySecretName is the name of the Secret, in the namespace of the server.
	keySecretName = "coder-k8s-mcp"
	// keySecretDataKey is the key in the Secret's data.
	keySecretDataKey = "confirmation-key"

	// keyBytes is the size of the key, which equals the size of the hash that uses it.
	keyBytes = 32
	// readTimeout limits the requests for the Secret.
	readTimeout = 5 * time.Second
)

// sharedKey provides the key that all replicas share. It reads the Secret whenever a
// confirmation is asked for or given, which is rare.
type sharedKey struct {
	// secrets is nil if the key is not shared.
	secrets corev1client.SecretInterface
	logger  logr.Logger

	mu sync.Mutex
	// last is the last key that was read. Before the first read, it is a key of this
	// process.
	last []byte
	// alone reports that the failure to get the Secret has been logged.
	alone bool
}

// newSharedKey returns a sharedKey. If secrets is nil, the key is one of this process.
func newSharedKey(secrets corev1client.SecretInterface, logger logr.Logger) *sharedKey {
	return &sharedKey{secrets: secrets, logger: logger, last: random()}
}

// Get returns the key. It returns an error only if ctx ends before the Secret was read.
func (k *sharedKey) Get(ctx context.Context) ([]byte, error) {
	if k.secrets == nil {
		return k.last, nil
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	key, err := k.shared(limited)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.last, k.alone = key, false
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !k.alone:
		k.alone = true
		k.logger.Error(err, "Could not read the Secret with the key of confirmations, so a confirmation works only on the replica that requested it",
			"secret", keySecretName)
	}
	return k.last, nil
}

// shared reads or creates the Secret. If two replicas create it at the same time, the
// second one uses the key of the first.
func (k *sharedKey) shared(ctx context.Context) ([]byte, error) {
	secret, err := k.secrets.Get(ctx, keySecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = k.create(ctx)
		if apierrors.IsAlreadyExists(err) {
			secret, err = k.secrets.Get(ctx, keySecretName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, err
	}
	key := secret.Data[keySecretDataKey]
	if len(key) < keyBytes {
		return nil, fmt.Errorf("%s of Secret %s has %d bytes, and %d are needed; delete the Secret, and the server creates it again", keySecretDataKey, keySecretName, len(key), keyBytes)
	}
	return key, nil
}

func (k *sharedKey) create(ctx context.Context) (*corev1.Secret, error) {
	return k.secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   keySecretName,
			Labels: map[string]string{"app.kubernetes.io/name": "coder-k8s"},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{keySecretDataKey: random()},
	}, metav1.CreateOptions{})
}

func random() []byte {
	key := make([]byte, keyBytes)
	// rand.Read never fails: it would end the process instead.
	_, _ = rand.Read(key)
	return key
}
