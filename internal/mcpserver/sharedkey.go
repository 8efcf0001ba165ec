package mcpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

const (
	// keySecretName is the name of the Secret, in the namespace of the server.
	keySecretName = "coder-k8s-mcp"
	// keySecretDataKey is the key in the Secret's data.
	keySecretDataKey = "confirmation-key"

	// keyBytes is the size of the key, which equals the size of the hash that uses it.
	keyBytes = 32
	// readTimeout limits a request for the Secret.
	readTimeout = 5 * time.Second
	// knownFor is how long the key of a Secret that was deleted, to replace it, stays in
	// use.
	knownFor = 5 * time.Minute
	// retryAfter is the interval of retries after the Secret could not be read or created.
	retryAfter = time.Minute
)

// sharedKey provides the key that all replicas share.
type sharedKey struct {
	// secrets is nil if the key is not shared.
	secrets corev1client.SecretInterface
	logger  logr.Logger
	answers *callers.TTLCache[[]byte]

	// Only one request runs at a time, so the fields below need no lock.

	// last is the last key that was read. Before the first read, it is a key of this
	// process.
	last []byte
	// alone reports that the failure to get the Secret has been logged.
	alone bool
}

// newSharedKey returns a sharedKey. The Secret is read or created at the first call of Get.
// If secrets is nil, the key is one of this process.
func newSharedKey(secrets corev1client.SecretInterface, clk clock.PassiveClock, logger logr.Logger) *sharedKey {
	return &sharedKey{secrets: secrets, logger: logger, last: random(), answers: callers.NewTTLCache[[]byte](1, readTimeout, clk)}
}

// Get returns the key. It returns an error only if ctx ends before the Secret was read.
func (k *sharedKey) Get(ctx context.Context) ([]byte, error) {
	if k.secrets == nil {
		return k.last, nil
	}
	return k.answers.Get(ctx, keySecretName, func(ctx context.Context) ([]byte, time.Duration, error) {
		key, err := k.shared(ctx)
		if err != nil {
			if !k.alone {
				k.alone = true
				k.logger.Error(err, "Could not read the Secret with the key of confirmations, so a confirmation works only on the replica that requested it",
					"secret", keySecretName)
			}
			return k.last, retryAfter, nil
		}
		k.last, k.alone = key, false
		return key, knownFor, nil
	})
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
