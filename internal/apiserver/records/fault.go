package records

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// retryAfterSeconds is the Retry-After of errors. Kubernetes clients obey it automatically.
const retryAfterSeconds = 1

// etcdFull is in the message of kube-apiserver if etcd accepts no writes. etcdTooLarge and
// etcdSendTooLarge are in its message if a record exceeds the limit of etcd, or of the client of etcd.
const (
	etcdFull         = "etcdserver: mvcc: database space exceeded"
	etcdTooLarge     = "etcdserver: request is too large"
	etcdSendTooLarge = "trying to send message larger than max"
)

// deniedByPolicy and deniedByWebhook are in the message of kube-apiserver if an admission policy or an admission
// webhook denied a request.
const (
	deniedByPolicy  = " denied request: "
	deniedByWebhook = " denied the request"
)

// errRestored means that what this replica remembers is newer than the cluster. It must start again.
var errRestored = errors.New("kube-apiserver returned an earlier state, as after a restore of etcd from a backup; this replica must start again")

// errRefused is in the error about a record that kube-apiserver will not accept, however often it is
// sent. The cause is the object, so other objects are not affected.
var errRefused = errors.New("kube-apiserver does not accept the record")

// IsRefused reports whether kube-apiserver rejected a record because of its content.
func IsRefused(err error) bool { return errors.Is(err, errRefused) }

// isDenied reports whether an admission policy or an admission webhook denied a request. They choose the code of the
// status, so it may also be that of a conflict or of a server that is not available.
func isDenied(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && (strings.Contains(status.ErrStatus.Message, deniedByPolicy) ||
		strings.Contains(status.ErrStatus.Message, deniedByWebhook))
}

// isOutdated reports whether a record is not the one that a write was based on.
func isOutdated(err error, revision uint64) bool {
	return !isDenied(err) && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || isAbsent(err) && revision != 0)
}

// refused is an API status that is also errRefused.
type refused struct{ *apierrors.StatusError }

func (r refused) Unwrap() []error { return []error{r.StatusError, errRefused} }

// failed returns the error of a write of a record.
func failed(ctx context.Context, what string, cause error) error {
	var status *apierrors.StatusError
	if !errors.As(cause, &status) || ctx.Err() != nil {
		return unavailable(ctx, what, cause)
	}
	out := &apierrors.StatusError{ErrStatus: *status.ErrStatus.DeepCopy()}
	switch message := status.ErrStatus.Message; {
	case status.ErrStatus.Code == http.StatusBadRequest, status.ErrStatus.Code == http.StatusUnprocessableEntity:
	case status.ErrStatus.Code == http.StatusRequestEntityTooLarge, strings.Contains(message, etcdTooLarge), strings.Contains(message, etcdSendTooLarge):
		out = apierrors.NewRequestEntityTooLargeError("")
	case isDenied(status):
		out = apierrors.NewForbidden(schema.GroupResource{}, "", cause)
	default:
		return unavailable(ctx, what, cause)
	}
	out.ErrStatus.Message = fmt.Sprintf("%s: %v: %s", what, errRefused, status.ErrStatus.Message)
	return refused{out}
}

// unavailable returns 503 if kube-apiserver did not respond, or if its error is about the operator
// and not about the client's request.
func unavailable(ctx context.Context, what string, cause error) error {
	if err := ctx.Err(); err != nil {
		// The client does not wait for the response any more.
		return err
	}
	var status *apierrors.StatusError
	if errors.As(cause, &status) {
		switch status.ErrStatus.Code {
		case http.StatusGone, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return cause
		}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf("%s: the records in kube-apiserver are not available; try again: %v%s", what, cause, advice(cause)),
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
	}}
}

// advice returns what an administrator can do.
func advice(cause error) string {
	switch {
	case apierrors.HasStatusCause(cause, "NamespaceTerminating"):
		return "; the namespace is being deleted"
	case apierrors.IsForbidden(cause), apierrors.IsUnauthorized(cause):
		return "; check the role coder-k8s-apiserver and the quotas of the namespace"
	case apierrors.IsNotFound(cause):
		return "; check whether the custom resource definitions of internal.coder.com are installed"
	case strings.Contains(cause.Error(), etcdFull):
		return "; etcd is full: free space (compact and defragment it, or raise --quota-backend-bytes), and disarm its NOSPACE alarm"
	}
	return ""
}

// uncertain returns the error for a write that Coder may have executed; done is "created" or
// "changed". It has no Retry-After: a client that retried automatically would get a conflict with
// its own object, or NotFound for a change that was made before the deletion.
func uncertain(key, done string, cause error) error {
	return apierrors.NewTimeoutError(fmt.Sprintf(
		"it is not known whether %s was %s: %v; get it to find out, or apply it again, which creates no duplicate", key, done, cause), 0)
}

// overwritten returns the error for a change whose record was overwritten after its claim.
func overwritten(key string) error {
	return uncertain(key, "changed", errors.New("its record was overwritten during the change"))
}

// NewerError is the error of a Writer if an object has changed in Coder since it was stored. The Store stores
// the newer object and decides the change again, so that the object in Coder is part of the optimistic lock.
// Elsewhere it is a conflict.
type NewerError struct {
	*apierrors.StatusError
	Object Object
}

// Newer returns a NewerError with the object as it is now.
func Newer(resource schema.GroupResource, object Object) error {
	return &NewerError{Object: object, StatusError: apierrors.NewConflict(resource, object.GetName(), errors.New(
		"it has changed in Coder since it was read; read it again and repeat the change"))}
}

// internal returns an internal error for data that cannot be decoded. It returns an API status
// unchanged.
func internal(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewInternalError(err)
}

// errDamaged is in the error about a record whose text cannot be decoded. Only a manual edit of a
// record causes this.
var errDamaged = errors.New("it cannot be decoded; the operator replaces it when it next reads the object from Coder")

func damagedError(record *Record, cause error) error {
	return fmt.Errorf("record %s/%s: %w: %w", record.Namespace, record.Name, errDamaged, cause)
}

// readError returns 503 for a damaged record: the object exists, and the record is repaired soon.
func readError(ctx context.Context, key string, err error) error {
	if errors.Is(err, errDamaged) {
		return unavailable(ctx, "reading "+key, err)
	}
	return internal(err)
}

// holdShown is like hold, for a record in a list or a watch. A damaged record does not fail the
// list or the watch, because that would make all other objects unavailable. Its object stays as it
// was known before. If it was not known, it is omitted until the record is repaired.
func (s *Store) holdShown(ctx context.Context, record *Record) (*held, error) {
	h, err := s.hold(ctx, record)
	if !errors.Is(err, errDamaged) {
		return h, err
	}
	klog.FromContext(ctx).Error(err, "Ignoring a record that cannot be decoded")
	h = &held{
		key: s.Key(record.Namespace, record.Name), revision: record.Revision, damaged: true,
		controlPlane: types.NamespacedName{Namespace: record.Namespace, Name: record.ControlPlane},
	}
	h.spec.ControlPlane, h.spec.ID = record.ControlPlane, record.ID
	if known := s.Table.get(h.key); known != nil {
		h.spec, h.hash, h.kept, h.controlPlane = known.spec, known.hash, known.kept, known.controlPlane
		if known.entry != nil {
			entry := *known.entry
			entry.Damaged = true
			h.entry = &entry
		}
	}
	h.spec.Claim = record.Claim
	return h, nil
}
