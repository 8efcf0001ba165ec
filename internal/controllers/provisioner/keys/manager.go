package keys

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

const (
	// defaultTrust is how long an answer about a valid key is cached.
	defaultTrust = time.Hour
	// retryFailed is the interval after a rejected request, and retrySoon the one after an outage.
	retryFailed = 5 * time.Minute
	retrySoon   = 15 * time.Second
)

// API is the part of Coder's API that this package uses. *coderd.Client implements it.
type API interface {
	Entitlements(ctx context.Context) (coderd.Entitlements, error)
	OrganizationByName(ctx context.Context, name string) (coderd.Organization, error)
	ProvisionerKeys(ctx context.Context, org uuid.UUID) ([]coderd.ProvisionerKey, error)
	CreateProvisionerKey(ctx context.Context, org uuid.UUID, name string, tags map[string]string) (string, error)
	DeleteProvisionerKey(ctx context.Context, org uuid.UUID, name string) error
	CheckProvisionerKey(ctx context.Context, plaintext string) (coderd.ProvisionerKey, error)
	ProvisionerDaemons(ctx context.Context, org uuid.UUID) ([]coderd.ProvisionerDaemon, error)
}

var _ API = (*coderd.Client)(nil)

// Manager manages the keys of all provisioners. Client and Connect are required. It is safe for
// concurrent use with different provisioners.
type Manager struct {
	// Client reads Secrets and control planes by name, without a cache, and writes Secrets.
	Client client.Client
	// Metadata lists the metadata of Secrets. It may be a cache. Nil means Client.
	Metadata client.Reader
	// Connect returns a client for the Coder of a control plane with the operator's token. It
	// returns an *Unavailable if Coder cannot be called.
	Connect func(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (API, error)
	// Clock provides the time. Nil means the real time.
	Clock clock.PassiveClock
	// Trust is how long Coder's answer is cached if nothing changes. 0 means an hour.
	Trust time.Duration

	mu    sync.Mutex
	heard map[types.UID]hearing
}

// Unavailable is the reason why Coder cannot be called. No request was sent.
type Unavailable struct {
	// Reason is a constant of api/v1alpha1.
	Reason, Message string
}

// Error implements error.
func (u *Unavailable) Error() string { return u.Message }

// Request describes the provisioner whose key is managed.
type Request struct {
	Provisioner *coderv1alpha1.CoderProvisioner
	// ControlPlane is the control plane of its spec, or nil if it does not exist.
	ControlPlane *coderv1alpha1.CoderControlPlane
	// Usage returns the keys that pods use. It is called only if the result is needed.
	Usage func(ctx context.Context) (Usage, error)
	// Refused is the reason why no key may be created and Coder may not be called, or nil.
	Refused *Finding
	// MaxAge limits the age of a cached answer about a valid key if it is not 0.
	MaxAge time.Duration
}

// Usage describes which keys pods use.
type Usage struct {
	// KeyIDs are the ids of the keys of all pods that have not ended. It contains "" for a pod
	// without a key.
	KeyIDs []string
	// Settled reports that no pod of an earlier revision can still be created.
	Settled bool
}

// Finding is a condition without its type.
type Finding struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func holds(reason, message string) Finding {
	return Finding{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func fails(reason, message string) Finding {
	return Finding{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func unknown(reason, message string) Finding {
	return Finding{Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// Event is an event to record for the provisioner.
type Event = outcome.Event

// Result is the result of a pass. Its messages do not change from pass to pass, and contain no
// secret.
type Result struct {
	// ControlPlane is set if Coder cannot be called.
	ControlPlane *Finding
	Entitled     Finding
	Key          Finding
	Secret       Finding
	// Record describes the key in the Secret, or is nil if there is none.
	Record *Record
	// SecretRef is the location of that key, or nil.
	SecretRef *coderv1alpha1.ProvisionerKeySecretReference
	// SecretVersion is the resource version of that Secret.
	SecretVersion string
	// OrganizationID and OrganizationName identify the organization of the spec, if Coder returned
	// it.
	OrganizationID, OrganizationName string
	// Forgotten reports that the key in the status no longer exists.
	Forgotten bool
	// Stalled reports that a user must act.
	Stalled bool
	// RequeueAfter is when to run the next pass. 0 means that none is needed.
	RequeueAfter time.Duration
	// Left are the keys that could not be deleted.
	Left []Record
	// Events must be recorded whatever the result of the pass is, also if it returned an error.
	Events outcome.Events
}

// pass is the state of one call of the Manager.
type pass struct {
	*Manager
	req    Request
	cr     *coderv1alpha1.CoderProvisioner
	result Result
	// secrets reads and writes the Secrets of the provisioner.
	secrets ownsecret.Secrets
	// stored is the content of the Secret, or nil if there is none.
	stored *stored
}

func (m *Manager) newPass(req Request) *pass {
	cr := req.Provisioner
	return &pass{Manager: m, req: req, cr: cr, secrets: ownsecret.Secrets{
		Client: m.Client, Owner: cr, Kind: "CoderProvisioner", Noun: "CoderProvisioner", Labels: resources.ProvisionerLabels(cr.Name),
	}}
}

// Forget drops the cached answer of Coder about a provisioner, so that the next pass asks again.
func (m *Manager) Forget(provisioner types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.heard, provisioner)
}

func (m *Manager) metadata() client.Reader {
	if m.Metadata == nil {
		return m.Client
	}
	return m.Metadata
}

func (m *Manager) now() time.Time {
	if m.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return m.Clock.Now()
}

func (m *Manager) trust() time.Duration {
	if m.Trust == 0 {
		return defaultTrust
	}
	return m.Trust
}

// stop is an error that ends a pass. The result contains the reason.
type stop struct{ message string }

func (s *stop) Error() string { return s.message }

func isStop(err error) bool {
	var s *stop
	return errors.As(err, &s)
}
