package sharedkey

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

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/answers"
)

const (
	// SecretName is the Secret in the namespace of the server.
	SecretName = "coder-k8s-mcp"
	// DataKey is where the key is in it.
	DataKey = "confirmation-key"

	// keyBytes is as much as the hash gives that the key is for.
	keyBytes = 32
	// readTimeout bounds one look at the Secret.
	readTimeout = 5 * time.Second
	// knownFor is how long a key that was deleted, to have a new one, stays in use.
	knownFor = 5 * time.Minute
	// retryAfter is how long nobody looks again for a Secret that cannot be had.
	retryAfter = time.Minute
)

// Key is the key of all replicas.
type Key struct {
	// secrets is nil where nobody shares the key.
	secrets corev1client.SecretInterface
	logger  logr.Logger
	answers *answers.Cache[[]byte]

	// Only one look at a time goes on, so these two need no lock.

	// last is the key that was seen last, or that of this process before the first.
	last []byte
	// alone says that the log tells of a Secret that cannot be had.
	alone bool
}

// New makes the key. It is read, or made, when it is first asked for.
func New(secrets corev1client.SecretInterface, clk clock.PassiveClock, logger logr.Logger) *Key {
	return &Key{secrets: secrets, logger: logger, last: random(), answers: answers.NewCache[[]byte](1, readTimeout, clk)}
}

// Alone makes the key of a process that has no replicas. It asks nobody.
func Alone() *Key { return &Key{last: random()} }

// Get returns the key. Its only error is that of a context that ends before the
// Secret was read.
func (k *Key) Get(ctx context.Context) ([]byte, error) {
	if k.secrets == nil {
		return k.last, nil
	}
	return k.answers.Get(ctx, SecretName, func(ctx context.Context) ([]byte, time.Duration, error) {
		key, err := k.shared(ctx)
		if err != nil {
			if !k.alone {
				k.alone = true
				k.logger.Error(err, "The Secret with the key of confirmations cannot be had: until it can, a confirmation must be answered on the replica that asked for it",
					"secret", SecretName)
			}
			return k.last, retryAfter, nil
		}
		k.last, k.alone = key, false
		return key, knownFor, nil
	})
}

// shared reads the Secret, or makes it. Of two replicas that make it at a time the
// second one takes what the first one made.
func (k *Key) shared(ctx context.Context) ([]byte, error) {
	secret, err := k.secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = k.create(ctx)
		if apierrors.IsAlreadyExists(err) {
			secret, err = k.secrets.Get(ctx, SecretName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, err
	}
	key := secret.Data[DataKey]
	if len(key) < keyBytes {
		return nil, fmt.Errorf("%s of Secret %s has %d bytes, and %d are needed; delete the Secret, and it is made anew", DataKey, SecretName, len(key), keyBytes)
	}
	return key, nil
}

func (k *Key) create(ctx context.Context) (*corev1.Secret, error) {
	return k.secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   SecretName,
			Labels: map[string]string{"app.kubernetes.io/name": "coder-k8s"},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{DataKey: random()},
	}, metav1.CreateOptions{})
}

func random() []byte {
	key := make([]byte, keyBytes)
	// It never fails: the process would end instead.
	_, _ = rand.Read(key)
	return key
}
