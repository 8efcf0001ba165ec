package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// warnings collects the warnings of responses.
type warnings struct {
	mu   sync.Mutex
	told []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.told = nil }()
	return strings.Join(w.told, "\n")
}

// twoCoders are two control planes of one namespace, of which the second becomes
// unavailable, and the real controllers that act on missing objects.
type twoCoders struct {
	ns            string
	process       *process
	first, second *coderdtest.Server
	workspaces    map[string]uuid.UUID
	client        client.Client
	warnings      *warnings
	oneOfFirst    *aggregationv1alpha1.CoderWorkspace
	oneOfSecond   *aggregationv1alpha1.CoderWorkspace
}

// TestAbsence: Kubernetes deletes dependents of objects that an API reports as missing.
// One of two control planes becomes unavailable: the objects of both are listed, those of
// the unavailable one with a warning, and dependents of its workspaces are not collected.
// Namespaces are deleted while the API is available, while its Coder is unavailable, and
// while the API is unavailable, and with workspaces in them, which remain in Coder.
func TestAbsence(t *testing.T) {
	s := newTwoCoders(t)
	// The real ones, because they delete dependents of missing objects.
	startControllerManager(t, "namespace-controller,garbage-collector-controller")
	kept := s.owned(t, "kept", s.oneOfSecond.Name, s.oneOfSecond.UID)
	back := s.second.Fail(coderdtest.Fault{DropConnection: true})
	// It takes a while until this counts as an outage.
	namespaceGoes(t, "with the API up", namespace(t))
	s.isCollected(t)
	s.isStale(t)
	// It is unknown whether this workspace exists.
	unsure := s.owned(t, "unsure", "second.coder.admin.unsure", types.UID(uuid.NewString()))
	s.touch(t, kept)
	namespaceGoes(t, "with Coder gone", namespace(t))
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); pause(t.Context(), 200*time.Millisecond) {
		s.exists(t, kept)
		s.exists(t, unsure)
	}
	back()
	polltest.Eventually(t, "what belongs to nobody is collected when Coder is back", func(ctx context.Context) error {
		return s.gone(ctx, unsure)
	})
	s.exists(t, kept)

	s.process.kill()
	empty := namespace(t)
	began := time.Now()
	deletesNamespace(t, empty)
	s.process.start(t)
	s.process.ready(t)
	namespaceIsGone(t, "with the API down and up again", empty, began)
	s.exists(t, kept)
	namespaceGoes(t, "with workspaces", s.ns)
	for name, id := range s.workspaces {
		for _, coder := range []*coderdtest.Server{s.first, s.second} {
			if slices.Contains(coder.Transitions(id), "delete") != (name == "collected" && coder == s.first) {
				t.Errorf("workspace %s was built in Coder: %v", name, coder.Transitions(id))
			}
		}
	}
}

// TestNamespaceDeletedDuringFirstSync: a namespace is deleted during the first sync of its
// Coder. The deletion is not blocked, no record remains, and nothing changes in Coder.
func TestNamespaceDeletedDuringFirstSync(t *testing.T) {
	const workspaces = 1500
	s := newServed(t, workspaces)
	// Pages are slow, so that the first sync is still running when the test detects its
	// start.
	s.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/workspaces", Delay: 500 * time.Millisecond})
	p := startProcess(t, s.proxy, "--leader-elect=false", "--watch-namespaces="+s.ns)
	p.ready(t)
	serve(t, p)
	startControllerManager(t, "namespace-controller,garbage-collector-controller")
	records := &metav1.PartialObjectMetadataList{}
	records.SetGroupVersionKind(recordsv1alpha1.GroupVersion.WithKind("CoderWorkspaceRecordList"))
	polltest.Eventually(t, "the first records are there", func(ctx context.Context) error {
		if err := environment.client.List(ctx, records, client.InNamespace(s.ns)); err != nil || len(records.Items) < 10 {
			return fmt.Errorf("there are %d records: %w", len(records.Items), err)
		}
		return nil
	})
	if n := len(records.Items); n >= workspaces {
		t.Fatalf("there are %d records: the first sync is over", n)
	}
	namespaceGoes(t, fmt.Sprintf("with %d of %d workspaces read", len(records.Items), workspaces), s.ns)
	for request, n := range s.coder.Requests() {
		if strings.HasPrefix(request, "POST ") && strings.HasSuffix(request, "/builds") {
			t.Errorf("Coder was asked %d times: %s", n, request)
		}
	}
}

func newTwoCoders(t *testing.T) *twoCoders {
	t.Helper()
	names, proxy := startCoders(t)
	s := &twoCoders{ns: namespace(t), warnings: &warnings{}, workspaces: map[string]uuid.UUID{}}
	controller := startProcess(t, proxy, "--app=controller", "--leader-elect=false", "--watch-namespaces="+s.ns)
	startStandIn(t, s.ns)
	s.first = controlPlaneReady(t, names, s.ns, "coder")
	s.add(s.first, "one", "two", "collected")
	s.second = controlPlaneReady(t, names, s.ns, "second")
	s.add(s.second, "away")
	cp := waitCondition(t, s.ns, "second", coderv1alpha1.ConditionReady, metav1.ConditionTrue, "")
	if prefix := ptr.Deref(cp.Status.ObjectNamePrefix, ""); prefix != "second." {
		t.Errorf("the prefix of the second control plane is %q", prefix)
	}
	controller.kill()
	// Objects that exist when the API starts are read immediately.
	s.process = startProcess(t, proxy, "--leader-elect=false", "--watch-namespaces="+s.ns)
	s.process.ready(t)
	serve(t, s.process)
	config := rest.CopyConfig(environment.config)
	config.WarningHandler = s.warnings
	s.client = as(t, config)
	s.oneOfFirst, s.oneOfSecond = s.reads(t, "coder.admin.one"), s.reads(t, "second.coder.admin.away")
	s.reads(t, "coder.admin.collected")
	return s
}

func (s *twoCoders) add(coder *coderdtest.Server, names ...string) {
	template := coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	for _, name := range names {
		s.workspaces[name] = coder.AddWorkspace("admin", template, name)
	}
}

// reads waits until a workspace exists, and returns it.
func (s *twoCoders) reads(t *testing.T, name string) *aggregationv1alpha1.CoderWorkspace {
	t.Helper()
	ws := &aggregationv1alpha1.CoderWorkspace{}
	polltest.Eventually(t, "workspace "+name+" is there", func(ctx context.Context) error {
		return s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: name}, ws)
	})
	return ws
}

// owned creates a ConfigMap whose owner is a workspace.
func (s *twoCoders) owned(t *testing.T, name, owner string, uid types.UID) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "aggregation.coder.com/v1alpha1", Kind: "CoderWorkspace", Name: owner, UID: uid,
	}}}}
	create(t, object)
	return object
}

// touch makes the garbage collector process an object.
func (s *twoCoders) touch(t *testing.T, object client.Object) {
	t.Helper()
	patch(t, object, "somebody", `{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)
}

func (s *twoCoders) gone(ctx context.Context, object client.Object) error {
	err := environment.client.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("reading %s gives %w", object.GetName(), errors.Join(err, errors.New("it is there")))
}

func (s *twoCoders) exists(t *testing.T, object client.Object) {
	t.Helper()
	if err := environment.client.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object)); err != nil {
		t.Fatalf("%s was collected, though its owner may exist: %v", object.GetName(), err)
	}
}

// isCollected checks that dependents of a workspace are deleted with it.
func (s *twoCoders) isCollected(t *testing.T) {
	t.Helper()
	owner := s.reads(t, "coder.admin.collected")
	object := s.owned(t, "collected", owner.Name, owner.UID)
	if err := s.client.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "what belonged to the workspace is collected", func(ctx context.Context) error {
		return s.gone(ctx, object)
	})
}

// isStale waits until lists warn that one of the Coders is unavailable. The objects of
// both are listed, and those of the available one can be changed.
func (s *twoCoders) isStale(t *testing.T) {
	t.Helper()
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	polltest.Eventually(t, "the list warns of the control plane that is away", func(ctx context.Context) error {
		s.warnings.take()
		if err := s.client.List(ctx, list, client.InNamespace(s.ns)); err != nil {
			return err
		}
		if told := s.warnings.take(); !strings.Contains(told, s.ns+"/second") || strings.Contains(told, s.ns+"/coder ") {
			return fmt.Errorf("it warns: %q", told)
		}
		return nil
	})
	if len(list.Items) != 3 {
		t.Errorf("the list has %d workspaces, not the 3 that both control planes have", len(list.Items))
	}
	content := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}},"spec":{"ttlMillis":7200000}}`))
	if err := s.client.Patch(t.Context(), s.oneOfFirst, content); err != nil {
		t.Errorf("changing a workspace of the control plane that lives: %v", err)
	}
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.oneOfSecond), s.oneOfSecond); err != nil {
		t.Errorf("reading a workspace of the control plane that is away: %v", err)
	}
	err := s.client.Create(t.Context(), workspaceOf(s.ns, "second.coder.admin.fresh", "hello"))
	if _, later := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !later {
		t.Errorf("making a workspace of the control plane that is away is answered with %v", err)
	}
}

func deletesNamespace(t *testing.T, ns string) {
	t.Helper()
	if err := environment.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		t.Fatal(err)
	}
}

func namespaceIsGone(t *testing.T, when, ns string, began time.Time) {
	t.Helper()
	polltest.Eventually(t, "the namespace is gone, "+when, func(ctx context.Context) error {
		found := &corev1.Namespace{}
		err := environment.client.Get(ctx, client.ObjectKey{Name: ns}, found)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("its conditions are %+v, error %w", found.Status.Conditions, err)
	})
	t.Logf("%s, a namespace was gone after %.1f s", when, time.Since(began).Seconds())
}

func namespaceGoes(t *testing.T, when, ns string) {
	t.Helper()
	began := time.Now()
	deletesNamespace(t, ns)
	namespaceIsGone(t, when, ns, began)
}
