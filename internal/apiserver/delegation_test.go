package apiserver

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/cert"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestBeforeTheAuthoritiesAreRead checks that the server is not ready before it trusts the certificates of kube-apiserver and
// of other clients: every request would get 401.
func TestBeforeTheAuthoritiesAreRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	settings := publishedSettings(t)
	clientCA := settings.Data[clientCAKey]
	settings.Data[clientCAKey] = "no certificate"
	if err := s.kube.Tracker().Add(settings); err != nil {
		t.Fatal(err)
	}
	var answered atomic.Bool
	late := errors.New("kube-apiserver is late")
	s.kube.PrependReactor("list", "configmaps", func(kubetesting.Action) (bool, runtime.Object, error) {
		return !answered.Load(), nil, late
	})
	s.kube.PrependWatchReactor("configmaps", func(kubetesting.Action) (bool, watch.Interface, error) {
		return !answered.Load(), nil, late
	})
	s.delegate = delegateTo(s.kube)
	s.run(t)
	waitsFor := func(key string) {
		t.Helper()
		polltest.Eventually(t, "all but "+key+" is read", func() error {
			err := s.server.Ready(nil)
			if err == nil {
				t.Fatal("the server is ready without the CA")
			}
			if !strings.Contains(err.Error(), "ConfigMap kube-system/extension-apiserver-authentication is readable, and has "+key) {
				return err
			}
			return nil
		})
	}
	waitsFor(requestHeaderCAKey)
	answered.Store(true)
	waitsFor(clientCAKey)
	settings = settings.DeepCopy()
	settings.Data[clientCAKey] = clientCA
	if err := s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), settings, settings.Namespace); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the server is ready", func() error { return s.server.Ready(nil) })
}

// TestNoClientCA checks that the server does not wait for a CA that kube-apiserver does not publish.
func TestNoClientCA(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	settings := publishedSettings(t)
	delete(settings.Data, clientCAKey)
	if err := s.kube.Tracker().Add(settings); err != nil {
		t.Fatal(err)
	}
	s.delegate = delegateTo(s.kube)
	s.run(t)
	polltest.Eventually(t, "the server is ready", func() error { return s.server.Ready(nil) })
}

// publishedSettings returns the ConfigMap that kube-apiserver publishes.
func publishedSettings(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	ca, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authenticationConfigMap},
		Data: map[string]string{
			"requestheader-username-headers": `["X-Remote-User"]`, requestHeaderCAKey: string(ca), clientCAKey: string(ca),
		},
	}
}
