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

// TestBeforeTheAuthorityIsRead checks that the server is not ready before it trusts kube-apiserver's client certificate:
// every forwarded request would get 401.
func TestBeforeTheAuthorityIsRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	ca, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authenticationConfigMap},
		Data: map[string]string{
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-client-ca-file": string(ca),
			"client-ca-file": string(ca),
		},
	}
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
	polltest.Eventually(t, "all but the authority is read", func() error {
		if err := s.server.Ready(nil); err == nil {
			t.Fatal("the server is ready without the authority")
		} else if !strings.Contains(err.Error(), "ConfigMap kube-system/extension-apiserver-authentication") {
			return err
		}
		return nil
	})
	answered.Store(true)
	polltest.Eventually(t, "the server is ready", func() error { return s.server.Ready(nil) })
}
