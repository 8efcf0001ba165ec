package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
)

const namespace = "coder-system"

// replica is a process that shares the key with others.
type replica struct {
	*sharedKey
	logs *mcptest.LogBuffer
}

func newKeyReplica(kube *fake.Clientset) *replica {
	r := &replica{logs: &mcptest.LogBuffer{}}
	r.sharedKey = newSharedKey(kube.CoreV1().Secrets(namespace), r.logs.Logger())
	return r
}

func (r *replica) get(t *testing.T) []byte {
	t.Helper()
	key, err := r.Get(t.Context())
	if err != nil || len(key) < keyBytes {
		t.Fatalf("the key has %d bytes, error %v", len(key), err)
	}
	return key
}

func secret(key []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: keySecretName}, Data: map[string][]byte{keySecretDataKey: key}}
}

func forbidden(action clienttesting.Action) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, keySecretName, fmt.Errorf("no right to %s", action.GetVerb()))
}

func TestReplicasShareOneKey(t *testing.T) {
	kube := fake.NewClientset()
	first, second := newKeyReplica(kube), newKeyReplica(kube)
	key := first.get(t)
	if !bytes.Equal(key, second.get(t)) {
		t.Error("two replicas have two keys")
	}
	kept, err := kube.CoreV1().Secrets(namespace).Get(t.Context(), keySecretName, metav1.GetOptions{})
	if err != nil || !bytes.Equal(kept.Data[keySecretDataKey], key) {
		t.Errorf("the Secret has another key, error %v", err)
	}
	if other := newKeyReplica(fake.NewClientset()).get(t); bytes.Equal(other, key) {
		t.Error("the key is not random")
	}
}

func TestTheSecondOfTwoThatMakeItTakesTheFirst(t *testing.T) {
	kube := fake.NewClientset()
	made := bytes.Repeat([]byte{7}, keyBytes)
	kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := kube.Tracker().Add(secret(made)); err != nil {
			t.Error(err)
		}
		return false, nil, nil
	})
	if key := newKeyReplica(kube).get(t); !bytes.Equal(key, made) {
		t.Error("the second replica has a key of its own")
	}
}

func TestWithoutTheSecretTheProcessHasAKeyOfItsOwn(t *testing.T) {
	broken := map[string]func(*fake.Clientset){
		"no right to read": func(kube *fake.Clientset) {
			kube.PrependReactor("get", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden(a) })
		},
		"no right to make it": func(kube *fake.Clientset) {
			kube.PrependReactor("create", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden(a) })
		},
		"a key that is too short": func(kube *fake.Clientset) {
			if err := kube.Tracker().Add(secret([]byte("hunter2"))); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, breakIt := range broken {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			breakIt(kube)
			r := newKeyReplica(kube)
			key := slices.Clone(r.get(t))
			for range 3 {
				if !bytes.Equal(key, r.get(t)) {
					t.Error("the key of the process changes")
				}
			}
			if got := strings.Count(r.logs.String(), "Could not read the Secret with the key of confirmations"); got != 1 {
				t.Errorf("the log says it %d times:\n%s", got, r.logs)
			}
			if strings.Contains(r.logs.String(), "hunter2") {
				t.Error("the key is in the log")
			}
			if bytes.Equal(key, newKeyReplica(kube).get(t)) {
				t.Error("two replicas made the same key by themselves")
			}
		})
	}
}

func TestASecretThatComesLaterIsUsed(t *testing.T) {
	kube := fake.NewClientset()
	away := true
	kube.PrependReactor("get", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) { return away, nil, forbidden(a) })
	r := newKeyReplica(kube)
	own := r.get(t)
	away = false
	shared := r.get(t)
	if bytes.Equal(own, shared) || !bytes.Equal(shared, newKeyReplica(kube).get(t)) {
		t.Error("the Secret is not used")
	}
	// The key stays in use while the API server is unavailable for a short time.
	away = true
	if !bytes.Equal(shared, r.get(t)) {
		t.Error("the shared key was given up")
	}
}

func TestADeletedSecretIsANewKey(t *testing.T) {
	kube := fake.NewClientset()
	r := newKeyReplica(kube)
	old := r.get(t)
	if err := kube.CoreV1().Secrets(namespace).Delete(t.Context(), keySecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(old, r.get(t)) {
		t.Error("the key that was deleted is in use")
	}
}

func TestACallThatEndsGetsNoKey(t *testing.T) {
	kube := fake.NewClientset()
	ctx, cancel := context.WithCancel(t.Context())
	kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, ctx.Err()
	})
	r := newKeyReplica(kube)
	if _, err := r.Get(ctx); !errors.Is(err, context.Canceled) || r.logs.String() != "" {
		t.Errorf("error %v, and the log says %q", err, r.logs)
	}
}

func TestAProcessAloneHasAKeyOfItsOwn(t *testing.T) {
	one, other := newSharedKey(nil, logr.Discard()), newSharedKey(nil, logr.Discard())
	var keys [][]byte
	for _, key := range []*sharedKey{one, one, other} {
		got, err := key.Get(t.Context())
		if err != nil || len(got) < keyBytes {
			t.Fatalf("the key has %d bytes, error %v", len(got), err)
		}
		keys = append(keys, got)
	}
	if !bytes.Equal(keys[0], keys[1]) || bytes.Equal(keys[0], keys[2]) {
		t.Error("a process has two keys, or two processes have one")
	}
}

// A server on a user's machine must not create objects in the cluster.
func TestALocalServerAsksAndLeavesNoSecret(t *testing.T) {
	h := running(t, func(c *Config) {
		c.Options.Identity.Mode, c.Options.BindAddress = callers.ModeNone, "127.0.0.1:0"
	})
	object := workspacesPath + "/default.alice.dev"
	h.kube.answer("GET "+object, http.StatusOK, workspaceObject())
	h.kube.answer("DELETE "+object, http.StatusOK, workspaceObject())
	var asked atomic.Int64
	session := dial(t, h.url, modernProtocol, "", agreeing(&asked))
	result := session.Call(t, "delete_workspace", map[string]any{"namespace": "coder", "name": "default.alice.dev"})
	if result.IsError || asked.Load() != 1 {
		t.Errorf("the user was asked %d times: %s", asked.Load(), mcptest.Text(result))
	}
	if n := len(h.kube.requests(http.MethodGet, secretsPath+"/coder-k8s-mcp")) + len(h.kube.requests(http.MethodPost, secretsPath)); n != 0 {
		t.Errorf("the cluster got %d requests about the Secret", n)
	}
}
