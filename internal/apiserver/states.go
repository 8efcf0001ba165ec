package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// mirrorStates and controlPlanes are the resources of CoderMirrorState and CoderControlPlane.
var (
	mirrorStates  = recordsv1alpha1.GroupVersion.WithResource("codermirrorstates")
	controlPlanes = coderv1alpha1.GroupVersion.WithResource("codercontrolplanes")
)

const (
	// statesEvery is the interval at which the board is compared with the existing control planes.
	// statesRetry is the delay before a failed write of the states is retried.
	statesEvery, statesRetry = time.Second, 500 * time.Millisecond
)

// staticState is the name of the state of the Coder from the command line, which has no control plane. No control plane has
// a name with a dot.
const staticState = "static.connection"

// errNotHeld means that another replica may be mirroring meanwhile.
var errNotHeld = errors.New("the Lease of the replica that mirrors was not renewed in time")

// states publishes the board of the replica that mirrors as CoderMirrorStates. The other replicas
// read them, and so does the next one after a restart.
type states struct {
	board    *syncstatus.Board
	client   dynamic.Interface
	informer informers.GenericInformer
	factory  dynamicinformer.DynamicSharedInformerFactory
	members  func(context.Context) ([]connections.Member, error)
	// knows reports whether the control planes of a namespace are among the members.
	knows func(namespace string) bool
	lease leadership
	// objects are the objects that this replica knows.
	objects objects
	began   time.Time
	// adopting serializes replace. After takeOver, no earlier call in Start can replace the board any
	// more.
	adopting sync.Mutex
}

// leadership is the Lease of the replica that mirrors.
type leadership interface {
	// leads reports whether this replica mirrors, so that it publishes its board.
	leads() bool
	// held reports whether it is certain that no other replica mirrors.
	held() bool
}

// objects are the objects of all kinds.
type objects interface {
	// has reports whether there are objects of a control plane.
	has(controlPlane types.NamespacedName) bool
	// caughtUp waits until this replica has all writes that were acknowledged before the call.
	caughtUp(ctx context.Context) error
}

func newStates(board *syncstatus.Board, client dynamic.Interface, provider Connections, lease leadership, objects objects, now time.Time) *states {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	return &states{
		board: board, client: client, factory: factory, informer: factory.ForResource(mirrorStates),
		members: provider.Members, knows: provider.Knows, lease: lease, objects: objects, began: now,
	}
}

// Start updates the board from the cluster while another replica mirrors.
func (s *states) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	stir := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := s.informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { stir() }, UpdateFunc: func(any, any) { stir() }, DeleteFunc: func(any) { stir() },
	}); err != nil {
		return err
	}
	s.factory.Start(ctx.Done())
	s.factory.WaitForCacheSync(ctx.Done())
	ticker := time.NewTicker(statesEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if !s.lease.leads() {
			stored, err := s.stored()
			if err == nil {
				err = s.replace(ctx, stored, s.lease.leads)
			}
			if err != nil && ctx.Err() == nil {
				log.FromContext(ctx).V(1).Info("Could not read the sync status of the control planes", "error", err.Error())
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-ticker.C:
		}
	}
	return nil
}

// takeOver replaces the board before this replica mirrors. The mirror removes the objects of a control plane that is not
// served, or has another UID than its state, so the states are read without a cache. While the cache of the control planes
// is older than the states, takeOver returns an error.
func (s *states) takeOver(ctx context.Context) error {
	list, err := s.client.Resource(mirrorStates).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the sync status of the control planes: %w", err)
	}
	var objects []runtime.Object
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	stored, err := statusesOf(objects)
	if err != nil {
		return err
	}
	members, err := s.members(ctx)
	if err != nil {
		return err
	}
	cached := map[types.NamespacedName]types.UID{}
	for _, m := range members {
		cached[m.ControlPlane] = m.UID
	}
	for name, state := range stored {
		if state.UID == "" || state.UID == cached[name] || !s.knows(name.Namespace) {
			continue
		}
		live, err := s.client.Resource(controlPlanes).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		var cp coderv1alpha1.CoderControlPlane
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &cp)
		}
		switch {
		case err != nil:
			return fmt.Errorf("reading control plane %s: %w", name, err)
		case cp.UID == state.UID && connections.Served(&cp):
			return fmt.Errorf("control plane %s is served, and this replica has not seen it yet", name)
		}
	}
	return s.replace(ctx, stored, func() bool { return false })
}

// replace replaces the board, unless unless() returns true by then. It first waits until this replica
// has the objects that the states refer to.
func (s *states) replace(ctx context.Context, stored map[types.NamespacedName]syncstatus.Status, unless func() bool) error {
	members, err := s.members(ctx)
	if err != nil {
		return err
	}
	var all []syncstatus.Status
	for _, m := range members {
		p, ok := stored[m.ControlPlane]
		if !ok || p.UID != "" && p.UID != m.UID {
			// The UID of an earlier control plane of this name stays: the mirror removes its objects.
			p = syncstatus.Status{
				ControlPlane: m.ControlPlane, UID: p.UID, NamePrefix: m.NamePrefix, Unnamed: !m.Named, State: syncstatus.Syncing,
				NeverServed: m.NeverServed && !s.objects.has(m.ControlPlane),
				Since:       metav1.NewTime(s.began), Message: "the operator has not read its objects yet",
			}
		}
		if !m.Deleting {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b syncstatus.Status) int {
		return cmp.Compare(a.ControlPlane.String(), b.ControlPlane.String())
	})
	if known, ok := s.board.All(); ok && slices.Equal(known, all) {
		return nil
	}
	if err := s.objects.caughtUp(ctx); err != nil {
		return err
	}
	s.adopting.Lock()
	defer s.adopting.Unlock()
	if !unless() {
		s.board.Replace(all)
	}
	return nil
}

// stored returns the states from the cache.
func (s *states) stored() (map[types.NamespacedName]syncstatus.Status, error) {
	if !s.informer.Informer().HasSynced() {
		return nil, errors.New("the sync status of the control planes is not read yet")
	}
	list, err := s.informer.Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	return statusesOf(list)
}

func statusesOf(objects []runtime.Object) (map[types.NamespacedName]syncstatus.Status, error) {
	out := map[types.NamespacedName]syncstatus.Status{}
	for _, each := range objects {
		untyped, ok := each.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("bug: %T is not a CoderMirrorState", each)
		}
		state := &recordsv1alpha1.CoderMirrorState{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, state); err != nil {
			return nil, err
		}
		controlPlane := types.NamespacedName{Namespace: state.Namespace, Name: state.Name}
		if state.Name == staticState {
			controlPlane.Name = ""
		}
		p := syncstatus.Status{
			ControlPlane: controlPlane, UID: state.Spec.ControlPlaneUID, NamePrefix: state.Spec.NamePrefix, DeploymentID: state.Spec.DeploymentID,
			State: syncstatus.State(state.Spec.State), Seen: state.Spec.Seen, NeverServed: state.Spec.NeverServed, Unnamed: state.Spec.Unnamed,
			Since: metav1.NewTime(state.Spec.Since.Time), Message: state.Spec.Message, Incomplete: int(state.Spec.Incomplete),
		}
		out[p.ControlPlane] = p
	}
	return out, nil
}

// publish writes the board to the cluster until the context is canceled.
func (s *states) publish(ctx context.Context) {
	// A replica may mirror before its cache has the states.
	cache.WaitForCacheSync(ctx.Done(), s.informer.Informer().HasSynced)
	written := map[types.NamespacedName]syncstatus.Status{}
	for ctx.Err() == nil {
		changed := s.board.Changed()
		retry := (<-chan time.Time)(nil)
		left, err := s.write(ctx, written)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Could not write the sync status of the control planes; retrying")
		}
		if left || err != nil {
			retry = time.After(statesRetry)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-retry:
		}
	}
}

// write updates the states in the cluster. written holds the states that are already up to date. left
// reports that a state cannot be deleted yet.
func (s *states) write(ctx context.Context, written map[types.NamespacedName]syncstatus.Status) (left bool, err error) {
	all, known := s.board.All()
	if !known {
		return false, nil
	}
	stored, err := s.stored()
	if err != nil {
		return false, err
	}
	var errs []error
	wanted := map[types.NamespacedName]bool{}
	for _, p := range all {
		wanted[p.ControlPlane] = true
		if before, ok := written[p.ControlPlane]; ok && before == p {
			continue
		}
		if err := s.put(ctx, p); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.ControlPlane, err))
			continue
		}
		written[p.ControlPlane] = p
	}
	for name, p := range stored {
		if wanted[name] {
			continue
		}
		stays, err := s.retract(ctx, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		left = left || stays
		delete(written, name)
	}
	return left, errors.Join(errs...)
}

// retract deletes the state of a control plane that is no longer served. As long as it has objects, its
// state stays: otherwise the next replica that mirrors would take them for the objects of a new control
// plane of the same name.
func (s *states) retract(ctx context.Context, p syncstatus.Status) (stays bool, err error) {
	switch {
	case s.objects.has(p.ControlPlane) && p.Seen:
		// Some of the objects are gone.
		p.State, p.Seen, p.Since, p.Message = syncstatus.Syncing, false, metav1.Now(), "its objects are being removed"
		return true, s.put(ctx, p)
	case s.objects.has(p.ControlPlane):
		return true, nil
	case !s.lease.held():
		return false, errNotHeld
	}
	err = s.client.Resource(mirrorStates).Namespace(p.ControlPlane.Namespace).Delete(ctx, stateName(p.ControlPlane), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return false, err
}

// stateName returns the name of the state of a control plane.
func stateName(controlPlane types.NamespacedName) string {
	return cmp.Or(controlPlane.Name, staticState)
}

func (s *states) put(ctx context.Context, p syncstatus.Status) error {
	state := &recordsv1alpha1.CoderMirrorState{
		TypeMeta:   metav1.TypeMeta{APIVersion: recordsv1alpha1.GroupVersion.String(), Kind: "CoderMirrorState"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.ControlPlane.Namespace, Name: stateName(p.ControlPlane)},
		Spec: recordsv1alpha1.MirrorStateSpec{
			ControlPlaneUID: p.UID, State: string(p.State), Since: metav1.NewMicroTime(p.Since.Time), Message: p.Message, NamePrefix: p.NamePrefix,
			Seen: p.Seen, NeverServed: p.NeverServed, Unnamed: p.Unnamed, DeploymentID: p.DeploymentID,
			Incomplete: int32(min(p.Incomplete, math.MaxInt32)), //nolint:gosec // It is limited.
		},
	}
	untyped, err := runtime.DefaultUnstructuredConverter.ToUnstructured(state)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: untyped}
	states := s.client.Resource(mirrorStates).Namespace(p.ControlPlane.Namespace)
	found, err := states.Get(ctx, state.Name, metav1.GetOptions{})
	if !s.lease.held() {
		// Another replica may have written a newer state before it was read. If another one writes it
		// from now on, the update conflicts.
		return errNotHeld
	}
	switch {
	case apierrors.IsNotFound(err):
		_, err = states.Create(ctx, object, metav1.CreateOptions{})
	case err == nil:
		object.SetResourceVersion(found.GetResourceVersion())
		_, err = states.Update(ctx, object, metav1.UpdateOptions{})
	}
	if apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return nil
	}
	return err
}
