package workspaceproxy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// apiServer runs the controller against a real kube-apiserver.
type apiServer struct {
	*controllertest.APIServer
	coder  *coderdtest.Server
	writes *writeLog
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	config := kubetest.Shared(t, controllertest.CRDs)
	a := &apiServer{
		controllertest.NewAPIServer(t, config, kubetest.Namespace(t, config)), coderdtest.New(t, coderdtest.WithLicensing()), &writeLog{},
	}
	a.coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	a.Config = rest.CopyConfig(config)
	a.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{next: next, log: a.writes} })
	a.Run(framework.CacheOptions(), func(ctx context.Context, mgr manager.Manager) error {
		kit, err := framework.New(mgr, framework.Options{})
		a.Must(err)
		r := New(kit, func(types.NamespacedName) {})
		return r.SetupWithManager(ctx, mgr)
	})
	return a
}

// writeLog records the writes of the manager, except Events and writes that were rejected with a
// conflict.
type writeLog struct {
	mu     sync.Mutex
	writes []string
}

// add records a write before it is sent, so that the log is never behind the cluster.
func (l *writeLog) add(written string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, written)
}

// drop removes a write that the API server rejected.
func (l *writeLog) drop(written string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.writes, written); i >= 0 {
		l.writes = slices.Delete(l.writes, i, i+1)
	}
}

func (l *writeLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes := l.writes
	l.writes = nil
	return writes
}

type countingTransport struct {
	next http.RoundTripper
	log  *writeLog
}

func (c *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || strings.Contains(req.URL.Path, "/events") {
		return c.next.RoundTrip(req)
	}
	written := req.Method + " " + req.URL.Path
	c.log.add(written)
	res, err := c.next.RoundTrip(req)
	// A pass with a stale cache is rejected, writes nothing, and is repeated.
	if err == nil && res.StatusCode == http.StatusConflict {
		c.log.drop(written)
	}
	return res, err
}

// becomesReady waits until the proxy is Ready, and is the only one in Coder.
func (a *apiServer) becomesReady(displayName string) {
	a.T.Helper()
	polltest.Eventually(a.T, "waiting for Ready", func() error {
		if err := a.RollOut(deploymentName); err != nil {
			return err
		}
		proxy := &coderv1alpha1.CoderWorkspaceProxy{}
		if err := a.Get("sydney", proxy); err != nil {
			return err
		}
		known := a.coder.Proxies()
		if !meta.IsStatusConditionTrue(proxy.Status.Conditions, coderv1alpha1.ConditionReady) || proxy.Status.ObservedGeneration != proxy.Generation ||
			len(known) != 1 || known[0].DisplayName != displayName || known[0].ID.String() != proxy.Status.ProxyID {
			return fmt.Errorf("Coder has %+v, conditions %+v", known, proxy.Status.Conditions)
		}
		secret := &corev1.Secret{}
		if err := a.Get(tokenSecret, secret); err != nil {
			return err
		}
		if string(secret.Data["token"]) != known[0].Token {
			return fmt.Errorf("the Secret has another token than Coder")
		}
		return nil
	})
}

func TestOnARealAPIServer(t *testing.T) {
	a := newAPIServer(t)
	ctx := t.Context()
	proxy := newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Namespace, p.UID, p.CreationTimestamp = a.Namespace, "", metav1.Time{}
		p.Spec.TLS.SecretNames = []string{"tls"}
		p.Spec.Service.Port = 443
		p.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
		p.Spec.Metrics.Enabled = true
		p.Spec.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
		p.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{Host: "sydney.example.com"}}
	})
	a.Must(a.Client.Create(ctx, proxy))
	polltest.Eventually(a.T, "waiting for the control plane", func() error {
		seen := &coderv1alpha1.CoderWorkspaceProxy{}
		if err := a.Get("sydney", seen); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(seen.Status.Conditions, coderv1alpha1.ConditionControlPlaneReady); c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("%+v", seen.Status.Conditions)
		}
		return nil
	})

	// The watch of the control plane reports that it was created, and then that it is ready.
	a.Must(a.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "dev-operator-token"},
		Data:       map[string][]byte{"token": []byte(a.coder.AddUser("operator", "owner"))},
	}))
	cp := controlPlane("dev", "", "")
	cp.Namespace, cp.UID = a.Namespace, ""
	status := cp.Status
	a.Must(a.Client.Create(ctx, cp))
	status.URL, status.AccessURL = a.coder.URL, accessURL
	cp.Status = status
	a.Must(a.Client.Status().Update(ctx, cp))
	a.becomesReady("sydney")
	a.restsWithoutWriting()

	// The spec changes, and the Secret is lost. The controller may write the status at the same
	// time, so this is a patch and not an update.
	a.Must(a.Get("sydney", proxy))
	before := proxy.DeepCopy()
	proxy.Spec.Bootstrap.DisplayName = "Sydney"
	a.Must(a.Client.Patch(ctx, proxy, client.MergeFrom(before)))
	a.becomesReady("Sydney")
	a.Must(a.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: tokenSecret}}))
	a.becomesReady("Sydney")

	a.Must(a.Get("sydney", proxy))
	a.Must(a.Client.Delete(ctx, proxy))
	polltest.Eventually(a.T, "waiting for the end", func() error {
		if err := a.Get("sydney", &coderv1alpha1.CoderWorkspaceProxy{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the proxy is still there: %w", err)
		}
		if known := a.coder.Proxies(); len(known) > 0 {
			return fmt.Errorf("Coder still has %+v", known)
		}
		return nil
	})
}

// restsWithoutWriting triggers a pass by annotating the Deployment and the Service, and checks that
// the pass writes nothing.
func (a *apiServer) restsWithoutWriting() {
	a.T.Helper()
	ctx := a.T.Context()
	quiet := 0
	polltest.Eventually(a.T, "waiting for rest", func() error {
		quiet++
		written := a.writes.take()
		if len(written) > 0 {
			quiet = 0
		}
		if quiet < 20 {
			return fmt.Errorf("writes: %q", written)
		}
		return nil
	})
	a.coder.Asked()
	for i := range 5 {
		for _, obj := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			a.Must(a.Get(deploymentName, obj))
			base := obj.DeepCopyObject().(client.Object)
			annotations := maps.Clone(obj.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations["example.com/seen"] = fmt.Sprint(i)
			obj.SetAnnotations(annotations)
			a.Must(a.Client.Patch(ctx, obj, client.MergeFrom(base)))
		}
	}
	// The image of the control plane changes last. When the pods have it, the earlier changes have
	// been handled.
	cp := &coderv1alpha1.CoderControlPlane{}
	a.Must(a.Get("dev", cp))
	cp.Status.Image = "ghcr.io/coder/coder:v2.30.2"
	a.Must(a.Client.Status().Update(ctx, cp))
	polltest.Eventually(a.T, "waiting for the new image", func() error {
		d := &appsv1.Deployment{}
		if err := a.Get(deploymentName, d); err != nil {
			return err
		}
		if image := d.Spec.Template.Spec.Containers[0].Image; image != cp.Status.Image {
			return fmt.Errorf("the pods run %q", image)
		}
		return nil
	})
	rolled := 0
	for _, written := range a.writes.take() {
		switch {
		case strings.HasSuffix(written, "/deployments/"+deploymentName):
			rolled++
		case !strings.HasSuffix(written, "/coderworkspaceproxies/sydney/status"):
			a.T.Errorf("written at rest: %s", written)
		}
	}
	if rolled != 1 {
		a.T.Errorf("the Deployment was applied %d times for one image", rolled)
	}
	if n := a.coder.Asked(); n > 0 {
		a.T.Errorf("%d requests to Coder at rest", n)
	}
	a.becomesReady("sydney")
}
