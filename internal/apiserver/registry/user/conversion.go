package user

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// lastSeenStep is the precision of lastSeenAt. Without it, the record of each active user would be
// written continuously.
const lastSeenStep = time.Hour

// Object implements mirror.Kind.
func (k *Kind) Object(
	ctx context.Context, connection connections.Connection, item coderd.User, record *metadata.Record, previous records.Object,
) (records.Object, error) {
	in, err := intentOf(record)
	if err != nil {
		return nil, err
	}
	was, _ := previous.(object)
	return k.object(ctx, connection, item, record, in, was), nil
}

func (k *Kind) object(
	ctx context.Context, connection connections.Connection, item coderd.User, record *metadata.Record, in intent, was object,
) *aggregationv1alpha1.CoderUser {
	memberships := k.members.of(ctx, connection, item)
	status := aggregationv1alpha1.CoderUserStatus{
		ID: item.ID.String(), Username: item.Username, Email: item.Email, FullName: item.Name, LoginType: item.LoginType,
		State: item.Status, Roles: normalRoles(item.Roles), Organizations: memberships, LastSeenAt: lastSeen(item.LastSeenAt, was),
	}
	status.Tokens, status.TokenCount = k.members.tokens(ctx, connection, item.ID)
	u := &aggregationv1alpha1.CoderUser{
		ObjectMeta: metav1.ObjectMeta{
			Name:              metadata.UserName{Prefix: connection.NamePrefix, Name: item.Username}.String(),
			Namespace:         connection.ControlPlane.Namespace,
			UID:               types.UID(item.ID.String()),
			CreationTimestamp: registry.Seconds(item.CreatedAt),
			Generation:        1,
			Labels:            registry.Labels(connection.ControlPlane),
			ManagedFields:     metadata.ManagedFields(),
		},
		Spec:   specOf(status),
		Status: status,
	}
	in.showIn(&u.Spec)
	metadata.Overlay(u, record)
	if was != nil {
		u.Generation = max(u.Generation, was.Generation)
		if !equality.Semantic.DeepEqual(u.Spec, was.Spec) {
			u.Generation = max(u.Generation, was.Generation+1)
		}
	}
	u.Status.ObservedGeneration = u.Generation
	u.Status.Conditions = k.conditions(u, in, was)
	return u
}

// specOf returns the spec of a user without fields that a manifest owns.
func specOf(status aggregationv1alpha1.CoderUserStatus) aggregationv1alpha1.CoderUserSpec {
	status = *status.DeepCopy()
	return aggregationv1alpha1.CoderUserSpec{
		Email: status.Email, FullName: status.FullName, LoginType: status.LoginType,
		Suspended: ptr.To(isSuspended(status)), Roles: status.Roles, Organizations: status.Organizations,
	}
}

func isSuspended(status aggregationv1alpha1.CoderUserStatus) bool {
	return coderd.User{Status: status.State}.IsSuspended()
}

func lastSeen(at time.Time, was object) *metav1.Time {
	// Coder reports the year 1 of a user who never logged in.
	if at.Year() < 2000 {
		return nil
	}
	if was != nil && was.Status.LastSeenAt != nil {
		if d := at.Sub(was.Status.LastSeenAt.Time); d >= 0 && d < lastSeenStep {
			return was.Status.LastSeenAt.DeepCopy()
		}
	}
	return ptr.To(registry.Seconds(at))
}

// drift returns the names of the owned fields that differ in Coder.
func drift(owned settings, status aggregationv1alpha1.CoderUserStatus) []string {
	var names []string
	if f := owned.FullName; f != nil && *f != status.FullName {
		names = append(names, "fullName")
	}
	if f := owned.Suspended; f != nil && *f != isSuspended(status) {
		names = append(names, "suspended")
	}
	if f := owned.Roles; f != nil && !equality.Semantic.DeepEqual(normalRoles(*f), normalRoles(status.Roles)) {
		names = append(names, "roles")
	}
	if f := owned.Organizations; f != nil && !sameOrganizations(*f, status.Organizations) {
		names = append(names, "organizations")
	}
	return names
}

// verdict holds the status, reason and message of a condition. The status is True if holds is set.
type verdict struct {
	holds           bool
	reason, message string
}

func (v verdict) condition(kind string, observed int64, since time.Time) metav1.Condition {
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: v.reason, Message: redaction.Truncate(v.message, registry.MaxMessage),
		ObservedGeneration: observed, LastTransitionTime: registry.Seconds(since),
	}
	if v.holds {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// synced returns the verdict of condition Synced.
func synced(drifted []string, no *refused) verdict {
	switch {
	case len(drifted) > 0 && no != nil:
		return verdict{reason: aggregationv1alpha1.ReasonChangeRefused, message: "Coder does not accept " + names(drifted) + ": " + no.Message}
	case len(drifted) > 0:
		return verdict{reason: aggregationv1alpha1.ReasonDrifted, message: names(drifted) + " differs in Coder and is being applied again"}
	}
	return verdict{true, aggregationv1alpha1.ReasonSynced, "the spec is applied to Coder"}
}

func names(fields []string) string { return "spec." + strings.Join(fields, ", spec.") }

func (k *Kind) conditions(u object, in intent, was object) []metav1.Condition {
	drifted := drift(in.Owned, u.Status)
	sync := synced(drifted, in.Refused)
	ready := verdict{true, aggregationv1alpha1.ReasonActive, "the user can log in"}
	switch {
	case !sync.holds:
		ready = sync
	case isSuspended(u.Status):
		ready = verdict{true, aggregationv1alpha1.ReasonSuspended, "the user is suspended"}
	case u.Status.State == stateDormant:
		ready = verdict{true, aggregationv1alpha1.ReasonDormant, "the user becomes active with the next login"}
	}
	reconciling := verdict{len(drifted) > 0 && in.Refused == nil, ready.reason, ready.message}
	stalled := verdict{len(drifted) > 0 && in.Refused != nil, ready.reason, ready.message}
	var out []metav1.Condition
	for _, c := range []struct {
		kind string
		verdict
	}{
		{aggregationv1alpha1.ConditionReady, ready}, {aggregationv1alpha1.ConditionReconciling, reconciling},
		{aggregationv1alpha1.ConditionStalled, stalled}, {aggregationv1alpha1.ConditionSynced, sync},
	} {
		now := c.condition(c.kind, u.Status.ObservedGeneration, k.Clock.Now())
		if was == nil {
			now.LastTransitionTime = u.CreationTimestamp
		} else if old := meta.FindStatusCondition(was.Status.Conditions, c.kind); old != nil && old.Status == now.Status {
			now.LastTransitionTime = old.LastTransitionTime
		}
		out = append(out, now)
	}
	return out
}

// stateDormant is the state of a user that has not logged in for long, or never.
const stateDormant = "dormant"

// WithSync implements mirror.Kind.
func (k *Kind) WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object {
	was, ok := previous.(object)
	if !ok || was == nil {
		return nil
	}
	c := meta.FindStatusCondition(was.Status.Conditions, aggregationv1alpha1.ConditionSynced)
	unreachable := c != nil && c.Reason == aggregationv1alpha1.ReasonCoderUnreachable
	if reachable != unreachable {
		return nil
	}
	now := verdict{reason: aggregationv1alpha1.ReasonCoderUnreachable, message: "Coder is not available, so this is the last known state: " + message}
	if reachable {
		now = synced(nil, nil)
	}
	out := was.DeepCopy()
	// The transition time changes only with the status.
	meta.SetStatusCondition(&out.Status.Conditions, now.condition(aggregationv1alpha1.ConditionSynced, was.Status.ObservedGeneration, since))
	return out
}
