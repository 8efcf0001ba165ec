package connections

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Permissions of a component that uses Dynamic: it watches the control planes, and reads the Secret
// that each of them names in its status. RBAC cannot express "the Secret that another object
// names", so the permission is to get any Secret by name.
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

const (
	// retryAfter is the value of UnavailableError.RetryAfter.
	retryAfter = time.Second
	// TokenMaxAge is how long a token is used before its Secret is read again. The Secret is read
	// at once if the control plane changed or Coder refused the token.
	TokenMaxAge = 10 * time.Second
	// RefusedFor is how long a token that Coder refused is not used again.
	RefusedFor = 30 * time.Second
)

// Options configures a Dynamic.
type Options struct {
	// Namespaces are the namespaces that the cache contains. Empty means all. No control plane of
	// another namespace is served.
	Namespaces []string
	// Timeout is the timeout of one request to Coder. 0 means coderd.DefaultTimeout.
	Timeout time.Duration
	// OnUnauthorized is called when the Coder of a control plane refuses the operator's token. It
	// must return quickly and be safe for concurrent use. It may be nil.
	OnUnauthorized func(controlPlane types.NamespacedName)
	// OnUnreachable is called each time the Coder of a control plane does not respond or fails with
	// a server error. It must return quickly and be safe for concurrent use. It may be nil.
	OnUnreachable func(controlPlane types.NamespacedName)
	// Clock provides the current time. Nil means the real clock.
	Clock clock.PassiveClock
	// NewClient creates a client. Nil means coderd.New.
	NewClient func(coderd.Config) (*coderd.Client, error)
}

// Dynamic provides a connection for each CoderControlPlane of the cluster that may be served.
type Dynamic struct {
	cached  client.Reader
	secrets client.Reader
	opts    Options

	mu      sync.Mutex
	clients map[types.UID]*entry
}

var _ Provider = (*Dynamic)(nil)

// NewDynamic returns a provider. It reads control planes from a cache, and Secrets by name from the
// API server, so that it needs no permission to list Secrets.
func NewDynamic(cached, secrets client.Reader, opts Options) *Dynamic {
	if opts.NewClient == nil {
		opts.NewClient = coderd.New
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return &Dynamic{cached: cached, secrets: secrets, opts: opts, clients: map[types.UID]*entry{}}
}

// ForNamespace implements Provider.
func (d *Dynamic) ForNamespace(ctx context.Context, namespace string) ([]Connection, error) {
	if !d.Knows(namespace) {
		return nil, nil
	}
	list, err := d.list(ctx, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	var out []Connection
	var unavailable []string
	for i := range list {
		cp := &list[i]
		if !Served(cp) {
			continue
		}
		member := d.member(ctx, cp)
		if member.Connection == nil {
			unavailable = append(unavailable, fmt.Sprintf("%s/%s: %s", cp.Namespace, cp.Name, member.Reason))
			continue
		}
		out = append(out, *member.Connection)
	}
	if len(unavailable) > 0 {
		return out, &UnavailableError{ControlPlanes: unavailable, RetryAfter: retryAfter}
	}
	return out, nil
}

// Knows reports whether the cache contains a namespace. Reading any other namespace from the cache
// returns an error.
func (d *Dynamic) Knows(namespace string) bool {
	return len(d.opts.Namespaces) == 0 || slices.Contains(d.opts.Namespaces, namespace)
}

// Members implements Provider.
func (d *Dynamic) Members(ctx context.Context) ([]Member, error) {
	list, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	d.forgetAllBut(list)
	var out []Member
	for i := range list {
		cp := &list[i]
		if served(cp) {
			out = append(out, d.member(ctx, cp))
		}
	}
	return out, nil
}

// member opens the connection of a control plane that is served.
func (d *Dynamic) member(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) Member {
	member := Member{ControlPlane: client.ObjectKeyFromObject(cp), UID: cp.UID, NeverServed: neverServed(&cp.Status), Rules: cp.Spec.Identity.Rules}
	if prefix := cp.Status.ObjectNamePrefix; prefix != nil {
		member.NamePrefix, member.Named = *prefix, true
	}
	if cp.DeletionTimestamp != nil {
		member.Deleting, member.Reason = true, "it is being deleted"
		return member
	}
	member.PodNamespaces = d.podNamespaces(cp)
	opened, reason := d.open(ctx, cp)
	if reason != "" {
		member.Reason = reason
		return member
	}
	member.Connection = &Connection{
		ControlPlane: member.ControlPlane, NamePrefix: member.NamePrefix, Client: opened,
		AccessURL: cp.Status.AccessURL, WildcardHost: wildcardHost(cp.Spec.Expose),
		UID: cp.UID, Rules: cp.Spec.Identity.Rules,
	}
	return member
}

// podNamespaces uses the status, because the spec may name any namespace.
func (d *Dynamic) podNamespaces(cp *coderv1alpha1.CoderControlPlane) []string {
	all := []string{cp.Namespace}
	for _, namespace := range cp.Status.WorkspaceNamespaces {
		if namespace != cp.Namespace && d.Knows(namespace) {
			all = append(all, namespace)
		}
	}
	return all
}

func wildcardHost(expose *coderv1alpha1.ExposeSpec) string {
	switch {
	case expose == nil:
	case expose.Ingress != nil:
		return expose.Ingress.WildcardHost
	case expose.Gateway != nil:
		return expose.Gateway.WildcardHost
	}
	return ""
}

// list returns the control planes, sorted by namespace and name.
func (d *Dynamic) list(ctx context.Context, scope ...client.ListOption) ([]coderv1alpha1.CoderControlPlane, error) {
	var list coderv1alpha1.CoderControlPlaneList
	if err := d.cached.List(ctx, &list, scope...); err != nil {
		return nil, fmt.Errorf("listing the control planes: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b coderv1alpha1.CoderControlPlane) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// Served reports whether the objects of a control plane are served.
func Served(cp *coderv1alpha1.CoderControlPlane) bool {
	return cp.DeletionTimestamp == nil && served(cp)
}

// served is like Served, but also reports true for a control plane that is being deleted.
func served(cp *coderv1alpha1.CoderControlPlane) bool {
	return !cp.Spec.OperatorAccess.Disabled && !strings.Contains(cp.Name, ".")
}

// neverServed reports whether the operator never had access to a control plane, so that no client
// can have seen its objects. It returns false if this is uncertain.
func neverServed(status *coderv1alpha1.CoderControlPlaneStatus) bool {
	switch {
	case status.OperatorAccessReady, status.OperatorTokenSecretRef != nil:
		return false
	case status.EverServed != nil:
		return !*status.EverServed
	}
	// The status was written by an operator that does not have the field yet, or was never written.
	return status.ObjectNamePrefix == nil || status.Version == ""
}

// notReady returns the reason why a control plane that is served cannot be called yet. It returns
// an empty string if it can.
func notReady(cp *coderv1alpha1.CoderControlPlane) string {
	switch {
	case cp.Status.URL == "":
		return "it has no URL yet"
	case cp.Status.ObjectNamePrefix == nil:
		return "its status.objectNamePrefix is not set yet"
	case !cp.Status.OperatorAccessReady:
		return "the operator has no access to it yet"
	case cp.Status.OperatorTokenSecretRef == nil:
		return "the operator has no token for it yet"
	}
	return ""
}
