package replication

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	peerLeasePrefix = "coder-k8s-apiserver-"

	labelReplica   = "aggregation.coder.com/replica"
	labelManagedBy = "app.kubernetes.io/managed-by"

	annotationAddress     = "aggregation.coder.com/peer-address"
	annotationFingerprint = "aggregation.coder.com/peer-fingerprint"
)

// peer is another replica.
type peer struct {
	// name is that of its Lease.
	name        string
	address     string
	fingerprint string
	// until is when its Lease runs out.
	until time.Time
}

// peers knows the other replicas by their Leases, and tells them of this one.
type peers struct {
	leases      coordinationclient.LeaseInterface
	name        string
	address     string
	fingerprint string
	timing      timing

	// asking lets one unknown fingerprint at a time make us read the Leases.
	asking sync.Mutex
	asked  time.Time

	mu    sync.Mutex
	known map[string]peer
}

// publish keeps the own Lease and what is known of others up to date. It calls first
// once others can trust this replica.
func (p *peers) publish(ctx context.Context, writing func() bool, first func()) {
	for {
		pause := p.timing.publish
		err := p.renew(ctx)
		if err == nil {
			first()
		} else if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Telling other replicas of this one; trying again")
			pause = p.timing.retry
		}
		found, err := p.list(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reading which replicas there are; trying again")
			pause = p.timing.retry
		}
		if writing() {
			p.forget(ctx, found)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// renew makes the own Lease or renews it. What it says belongs to this process: a
// process of the same name that was here before is gone.
func (p *peers) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timing.published/4)
	defer cancel()
	lease, err := p.leases.Get(ctx, p.name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	switch {
	case missing:
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	case err != nil:
		return fmt.Errorf("reading Lease %s: %w", p.name, err)
	}
	p.fill(lease)
	if missing {
		_, err = p.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = p.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing Lease %s: %w", p.name, err)
	}
	return nil
}

func (p *peers) fill(lease *coordinationv1.Lease) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[labelReplica], lease.Labels[labelManagedBy] = "true", "coder-k8s"
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotationAddress], lease.Annotations[annotationFingerprint] = p.address, p.fingerprint
	seconds, now := int32(max(p.timing.published/time.Second, 1)), metav1.NowMicro()
	if lease.Spec.AcquireTime == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != p.fingerprint {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &p.fingerprint, &seconds, &now
}

// list reads the Leases of all replicas but this one.
func (p *peers) list(ctx context.Context) ([]peer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timing.request)
	defer cancel()
	list, err := p.leases.List(ctx, metav1.ListOptions{LabelSelector: labelReplica + "=true"})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of replicas: %w", err)
	}
	known := map[string]peer{}
	found := make([]peer, 0, len(list.Items))
	for i := range list.Items {
		other, ok := peerOf(&list.Items[i])
		if !ok || other.name == p.name {
			continue
		}
		found = append(found, other)
		known[other.fingerprint] = other
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	return found, nil
}

func peerOf(lease *coordinationv1.Lease) (peer, bool) {
	found := peer{
		name: lease.Name, address: lease.Annotations[annotationAddress],
		fingerprint: lease.Annotations[annotationFingerprint],
	}
	if lease.Spec.RenewTime != nil && lease.Spec.LeaseDurationSeconds != nil {
		found.until = lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	}
	return found, found.address != "" && found.fingerprint != ""
}

// living gives those whose Lease has not run out.
func (p *peers) living(ctx context.Context) ([]peer, error) {
	found, err := p.list(ctx)
	living := make([]peer, 0, len(found))
	for _, other := range found {
		if time.Now().Before(other.until) {
			living = append(living, other)
		}
	}
	return living, err
}

// trust says whether a fingerprint is that of a living replica. One that is not
// known makes it read the Leases again, not too often: strangers can knock.
func (p *peers) trust(ctx context.Context, fingerprint string) error {
	if p.knows(fingerprint) {
		return nil
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	if !p.knows(fingerprint) && time.Since(p.asked) >= p.timing.relist {
		p.asked = time.Now()
		if _, err := p.list(ctx); err != nil {
			return fmt.Errorf("no living replica is known that has the certificate %.12s…: %w", fingerprint, err)
		}
	}
	if !p.knows(fingerprint) {
		return fmt.Errorf("no living replica has the certificate %.12s…", fingerprint)
	}
	return nil
}

func (p *peers) knows(fingerprint string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	other, ok := p.known[fingerprint]
	return ok && time.Now().Before(other.until)
}

// forget removes Leases that ran out long ago. Their replicas could not say good-bye.
func (p *peers) forget(ctx context.Context, found []peer) {
	for _, other := range found {
		if time.Since(other.until) < p.timing.forgotten {
			continue
		}
		err := p.leases.Delete(ctx, other.name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Removing the Lease of a replica that is gone", "lease", other.name)
		}
	}
}

// withdraw removes the own Lease, unless another process has taken the name over.
func (p *peers) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timing.request)
	defer cancel()
	lease, err := p.leases.Get(ctx, p.name, metav1.GetOptions{})
	if err != nil || lease.Annotations[annotationFingerprint] != p.fingerprint {
		return ignoreNotFound(err)
	}
	return ignoreNotFound(p.leases.Delete(ctx, p.name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{ResourceVersion: &lease.ResourceVersion},
	}))
}

func ignoreNotFound(err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("removing the Lease of this replica: %w", err)
}

// sleep gives false when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
