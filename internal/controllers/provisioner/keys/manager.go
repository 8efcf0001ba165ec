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
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

const (
	// defaultTrust is how long a key that Coder knew is believed in.
	defaultTrust = time.Hour
	// retryFailed is when a refusal is looked at again, retrySoon when an outage is.
	retryFailed = 5 * time.Minute
	retrySoon   = 15 * time.Second
)

// API is what keys need of a Coder. *coderd.Client is one.
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

// Manager keeps the keys of all provisioners. Client and Connect are required. It
// is safe for concurrent use for different provisioners.
type Manager struct {
	// Client reads Secrets and control planes by name, uncached, and writes Secrets.
	Client client.Client
	// Metadata lists the metadata of Secrets. It may be a cache. Nil means Client.
	Metadata client.Reader
	// Connect reaches the Coder of a control plane with the operator's token. What
	// is in the way is an *Unavailable.
	Connect func(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (API, error)
	// Clock decides about age. Nil means the real one.
	Clock clock.PassiveClock
	// Trust is how long Coder's word is believed where nothing changed. 0 means an
	// hour.
	Trust time.Duration

	mu    sync.Mutex
	heard map[types.UID]hearing
}

// Unavailable says why a Coder cannot be asked, before anything was sent there.
type Unavailable struct {
	// Reason is a constant of api/v1alpha1.
	Reason, Message string
}

// Error implements error.
func (u *Unavailable) Error() string { return u.Message }

// Request is one provisioner whose key is looked after.
type Request struct {
	Provisioner *coderv1alpha1.CoderProvisioner
	// ControlPlane is that of its spec, or nil where it does not exist.
	ControlPlane *coderv1alpha1.CoderControlPlane
	// Usage says which keys pods hold. It is asked only where that matters.
	Usage func(ctx context.Context) (Usage, error)
	// Refused says why nothing may be asked or made, or is nil.
	Refused *Finding
	// MaxAge bounds what is believed from earlier, where it is not 0.
	MaxAge time.Duration
}

// Usage says which keys pods hold.
type Usage struct {
	// KeyIDs are the ids that pods carry that have not ended, "" for a pod without.
	KeyIDs []string
	// Settled says that no pod of an earlier revision can still be made.
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

// Event tells of something that changed.
type Event = outcome.Event

// Result is what a pass came to. Its texts are stable from pass to pass and hold
// no secret.
type Result struct {
	// ControlPlane is set where something is in the way of asking it.
	ControlPlane *Finding
	Entitled     Finding
	Key          Finding
	Secret       Finding
	// Record is the key that the Secret holds, or nil where it holds none.
	Record *Record
	// SecretRef is where that key stands, or nil.
	SecretRef *coderv1alpha1.ProvisionerKeySecretReference
	// SecretVersion is the resource version of that Secret.
	SecretVersion string
	// OrganizationID and OrganizationName are those of the organization of the spec,
	// where Coder told them.
	OrganizationID, OrganizationName string
	// Forgotten says that no key is left of which the status tells.
	Forgotten bool
	// Stalled says that time alone mends nothing.
	Stalled bool
	// RequeueAfter is when to look again. 0 means no need.
	RequeueAfter time.Duration
	// Left are the keys that could not be deleted.
	Left []Record
	// Events are to be told whatever came of the pass, also beside an error.
	Events outcome.Events
}

// pass is one call of the Manager.
type pass struct {
	*Manager
	req    Request
	cr     *coderv1alpha1.CoderProvisioner
	result Result
	// secrets are those of the provisioner.
	secrets ownsecret.Secrets
	// stored is the Secret, read, or nil where there is none.
	stored *stored
}

func (m *Manager) newPass(req Request) *pass {
	cr := req.Provisioner
	return &pass{Manager: m, req: req, cr: cr, secrets: ownsecret.Secrets{
		Client: m.Client, Owner: cr, Kind: "CoderProvisioner", Noun: "CoderProvisioner", Labels: resources.Labels(cr.Name),
	}}
}

// Forget drops what Coder told about a provisioner, so that the next pass asks.
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

// stop ends a pass of which the result says why. It travels as an error.
type stop struct{ message string }

func (s *stop) Error() string { return s.message }

func isStop(err error) bool {
	var s *stop
	return errors.As(err, &s)
}
