package connections

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	present := make(map[types.UID]bool, len(list))
	for i := range list {
		present[list[i].UID] = Served(&list[i])
	}
	d.mu.Lock()
	maps.DeleteFunc(d.clients, func(uid types.UID, _ *entry) bool { return !present[uid] })
	d.mu.Unlock()
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
	// In the status, because the spec may name any namespace.
	member.PodNamespaces = []string{cp.Namespace}
	for _, namespace := range cp.Status.WorkspaceNamespaces {
		if namespace != cp.Namespace && d.Knows(namespace) {
			member.PodNamespaces = append(member.PodNamespaces, namespace)
		}
	}
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

// entry is the cached client of one control plane with its inputs: the URL and the token, which is
// stored only as a hash.
type entry struct {
	client    *coderd.Client
	url       string
	tokenHash [sha256.Size]byte
	// readAt and version are the time when the token was read, and the control plane's
	// resourceVersion at that time.
	readAt  time.Time
	version string
	// refusedAt is the time when Coder refused the token. It is zero if Coder did not.
	refusedAt time.Time
}

// open returns the client of a control plane, or the reason why there is none yet.
func (d *Dynamic) open(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (c *coderd.Client, reason string) {
	if reason := notReady(cp); reason != "" {
		d.forget(cp.UID)
		return nil, reason
	}
	if c := d.known(cp, true); c != nil {
		return c, ""
	}
	token, reason, err := d.readToken(ctx, cp)
	if err != nil {
		// The API server fails at the moment. A client that worked stays in use.
		if c := d.known(cp, false); c != nil {
			return c, ""
		}
		return nil, reason
	}
	if reason != "" {
		d.forget(cp.UID)
		return nil, reason
	}
	return d.client(cp, token)
}

// known returns the cached client, unless Coder has refused its token. With fresh, it returns only
// a client whose token need not be read again.
func (d *Dynamic) known(cp *coderv1alpha1.CoderControlPlane, fresh bool) *coderd.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.clients[cp.UID]
	if !ok || !e.refusedAt.IsZero() || e.url != cp.Status.URL {
		return nil
	}
	if fresh && (e.version != cp.ResourceVersion || d.opts.Clock.Since(e.readAt) >= TokenMaxAge) {
		return nil
	}
	return e.client
}

// readToken reads the token, or returns the reason why there is none. err is set if the failure may
// be temporary.
func (d *Dynamic) readToken(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (token, reason string, err error) {
	ref := cp.Status.OperatorTokenSecretRef
	key := cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
	var secret corev1.Secret
	err = d.secrets.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: ref.Name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Sprintf("Secret %q with its token does not exist", ref.Name), nil
	case apierrors.IsForbidden(err):
		return "", fmt.Sprintf("the operator has no permission to read Secret %q with its token", ref.Name), nil
	case err != nil:
		return "", fmt.Sprintf("Secret %q with its token cannot be read now: %v", ref.Name, err), err
	}
	token = strings.TrimSpace(string(secret.Data[key]))
	if token == "" {
		return "", fmt.Sprintf("Secret %q has no token under the key %q", ref.Name, key), nil
	}
	return token, "", nil
}

// client returns the client for a token that was just read.
func (d *Dynamic) client(cp *coderv1alpha1.CoderControlPlane, token string) (c *coderd.Client, reason string) {
	hash := sha256.Sum256([]byte(token))
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.opts.Clock.Now()
	if e, ok := d.clients[cp.UID]; ok && e.url == cp.Status.URL && e.tokenHash == hash {
		switch {
		case e.refusedAt.IsZero():
			e.readAt, e.version = now, cp.ResourceVersion
			return e.client, ""
		case now.Sub(e.refusedAt) < RefusedFor:
			return nil, "Coder does not accept the operator's token"
		}
	}
	e := &entry{url: cp.Status.URL, tokenHash: hash, readAt: now, version: cp.ResourceVersion}
	var err error
	controlPlane := client.ObjectKeyFromObject(cp)
	e.client, err = d.opts.NewClient(coderd.Config{
		URL:     cp.Status.URL,
		Token:   token,
		Timeout: d.opts.Timeout,
		OnUnauthorized: func() {
			// Only the first time that Coder refuses this token.
			d.mu.Lock()
			first := e.refusedAt.IsZero()
			if first {
				e.refusedAt = d.opts.Clock.Now()
			}
			d.mu.Unlock()
			if first && d.opts.OnUnauthorized != nil {
				d.opts.OnUnauthorized(controlPlane)
			}
		},
		OnUnreachable: func() {
			if d.opts.OnUnreachable != nil {
				d.opts.OnUnreachable(controlPlane)
			}
		},
	})
	if err != nil {
		return nil, err.Error()
	}
	d.clients[cp.UID] = e
	return e.client, ""
}

func (d *Dynamic) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clients, uid)
}

// Connection is a control plane whose Coder can be called.
type Connection struct {
	// ControlPlane is its namespace and name. A static connection has only the namespace.
	ControlPlane types.NamespacedName
	// NamePrefix is the prefix of its objects' names: empty, or "<control plane>.".
	NamePrefix string
	// AccessURL is the URL at which users reach Coder. WildcardHost is the host name of apps with a
	// host name of their own, for example *.coder.example.com. Both may be empty.
	AccessURL, WildcardHost string
	// UID distinguishes the control plane from an earlier one of the same name. A static connection
	// has none.
	UID types.UID
	// Rules are spec.identity.rules. They must not be modified.
	Rules []coderv1alpha1.IdentityRule
	// Client authenticates as the operator.
	Client *coderd.Client
}

// Provider provides the connections.
type Provider interface {
	// ForNamespace returns the connections of one namespace, sorted by the name of the control
	// plane. It returns nil and nil if the namespace has no control plane. If one that should be
	// served is not ready, it returns the others and an *UnavailableError.
	ForNamespace(ctx context.Context, namespace string) ([]Connection, error)
	// Members returns all control planes that are served, including those that cannot be called now
	// or are being deleted, sorted by namespace and name. An error means that the members are
	// unknown, not that there are none.
	Members(ctx context.Context) ([]Member, error)
}

// UnavailableError lists the control planes that should be served and are not.
type UnavailableError struct {
	// ControlPlanes has one entry "namespace/name: reason" for each of them.
	ControlPlanes []string
	RetryAfter    time.Duration
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("control planes that cannot be reached yet: %s; try again in %s",
		strings.Join(e.ControlPlanes, "; "), e.RetryAfter)
}

// Static provides the one Coder that was configured on the command line. It belongs to one
// namespace; all others are empty.
type Static struct {
	connection Connection
}

var _ Provider = (*Static)(nil)

// NewStatic returns a Static that provides client in one namespace.
func NewStatic(namespace string, client *coderd.Client) *Static {
	return &Static{connection: Connection{ControlPlane: types.NamespacedName{Namespace: namespace}, Client: client}}
}

// ForNamespace implements Provider.
func (s *Static) ForNamespace(_ context.Context, namespace string) ([]Connection, error) {
	if namespace != s.connection.ControlPlane.Namespace {
		return nil, nil
	}
	return []Connection{s.connection}, nil
}

// Members implements Provider.
func (s *Static) Members(context.Context) ([]Member, error) {
	return []Member{{ControlPlane: s.connection.ControlPlane, Named: true, Connection: &s.connection,
		PodNamespaces: []string{s.connection.ControlPlane.Namespace}}}, nil
}

// Member is a control plane whose objects are served.
type Member struct {
	// ControlPlane is its namespace and name. A static member has only the namespace.
	ControlPlane types.NamespacedName
	// UID distinguishes it from an earlier control plane of the same name. A static member has
	// none.
	UID types.UID
	// NamePrefix is the prefix of its objects' names: empty, or "<control plane>.". It does not
	// change once it is set in the status.
	NamePrefix string
	// Named reports that NamePrefix is set. Without it there is no connection.
	Named bool
	// NeverServed reports that there was never a connection, so that no client can have seen its
	// objects.
	NeverServed bool
	// PodNamespaces are the namespaces in which pods with the label of a workspace are considered:
	// the control plane's own, and those in which the permissions of spec.rbac are granted and that
	// this process watches. A pod in any other namespace may carry a forged label.
	PodNamespaces []string
	// Rules are spec.identity.rules. They must not be modified.
	Rules []coderv1alpha1.IdentityRule
	// Connection is nil if there is none at the moment.
	Connection *Connection
	// Reason is a readable reason why there is no connection.
	Reason string
	// Deleting reports that the control plane is being deleted: its objects are released, and it
	// has no connection any more.
	Deleting bool
}

// Serves reports whether a namespace has a control plane that is served and whose name prefix is
// set. It reads only the cache, and no token.
func (d *Dynamic) Serves(ctx context.Context, namespace string) (bool, error) {
	if !d.Knows(namespace) {
		return false, nil
	}
	list, err := d.list(ctx, client.InNamespace(namespace))
	if err != nil {
		return false, fmt.Errorf("namespace %q: %w", namespace, err)
	}
	for i := range list {
		cp := &list[i]
		if Served(cp) && cp.Status.ObjectNamePrefix != nil {
			return true, nil
		}
	}
	return false, nil
}

// Serves reports whether namespace is the namespace of the one Coder.
func (s *Static) Serves(_ context.Context, namespace string) (bool, error) {
	return namespace == s.connection.ControlPlane.Namespace, nil
}

// Knows returns false, because there are no control planes.
func (*Static) Knows(string) bool { return false }
