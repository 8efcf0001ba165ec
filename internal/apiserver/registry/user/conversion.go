package user

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// lastSeenStep is the precision of lastSeenAt. Without it, the record of each active user would be
// written continuously.
const lastSeenStep = time.Hour

// Object implements mirror.Kind.
func (k *Kind) Object(
	ctx context.Context, connection connections.Connection, item coderd.User, record *metadata.Record, previous records.Object,
) (records.Object, error) {
	in, err := registry.ReadIntent[intent](record)
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
		ServiceAccount: item.ServiceAccount, State: item.Status, Roles: normalRoles(item.Roles), Organizations: memberships, LastSeenAt: lastSeen(item.LastSeenAt, was),
	}
	status.Tokens, status.TokenCount = k.members.tokens(ctx, connection, item.ID)
	u := &aggregationv1alpha1.CoderUser{
		ObjectMeta: k.NewMeta(connection, metadata.JoinName(connection.NamePrefix, item.Username), item.ID, item.CreatedAt),
		Spec:       specOf(status, in),
		Status:     status,
	}
	metadata.Overlay(u, record)
	k.Continue(u, was)
	u.Status.ObservedGeneration = u.Generation
	u.Status.Conditions = k.conditions(u, in, was)
	var before []metav1.Condition
	if was != nil {
		before = was.Status.Conditions
	}
	k.showDeletion(u, before)
	return u
}

// showDeletion shows what the deletion of a user waits for. Coder deletes no user with workspaces, and suspends no Owner.
func (k *Kind) showDeletion(u object, before []metav1.Condition) {
	switch {
	case u.DeletionTimestamp == nil:
	case u.Spec.ReclaimPolicy == aggregationv1alpha1.ReclaimDelete:
		k.ShowDeletion(u, before, "deleted", k.WorkspacesDeleted(u, func(ws aggregationv1alpha1.CoderWorkspaceStatus) bool {
			return strings.EqualFold(ws.OwnerName, u.Status.Username)
		}))
	case slices.Contains(u.Status.Roles, "owner") && !isSuspended(u.Status):
		k.ShowDeletion(u, before, "suspended", "the role owner is removed (Coder suspends no Owner)")
	default:
		k.ShowDeletion(u, before, "suspended", "")
	}
}

// specOf returns the spec of a user. The fields that a manifest owns are those of the record.
func specOf(status aggregationv1alpha1.CoderUserStatus, in intent) aggregationv1alpha1.CoderUserSpec {
	status = *status.DeepCopy()
	spec := aggregationv1alpha1.CoderUserSpec{
		Email: status.Email, FullName: status.FullName, LoginType: status.LoginType,
		Suspended: ptr.To(isSuspended(status)), Roles: status.Roles, Organizations: status.Organizations,
		PasswordFrom: in.PasswordFrom.DeepCopy(), ReclaimPolicy: in.ReclaimPolicy,
	}
	if status.ServiceAccount {
		spec.ServiceAccount = ptr.To(true)
	}
	if f := in.Owned.FullName; f != nil {
		spec.FullName = *f
	}
	if f := in.Owned.Suspended; f != nil {
		spec.Suspended = ptr.To(*f)
	}
	if f := in.Owned.Roles; f != nil {
		spec.Roles = slices.Clone(*f)
	}
	if f := in.Owned.Organizations; f != nil {
		spec.Organizations = (&aggregationv1alpha1.CoderUserSpec{Organizations: *f}).DeepCopy().Organizations
	}
	return spec
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

// drift returns the names of the owned fields that differ in Coder, in the order in which they are corrected. Coder does not
// suspend an Owner, so the roles come before.
func drift(owned settings, status aggregationv1alpha1.CoderUserStatus) []string {
	var names []string
	if f := owned.FullName; f != nil && *f != status.FullName {
		names = append(names, "fullName")
	}
	if f := owned.Organizations; f != nil && !sameOrganizations(*f, status.Organizations) {
		names = append(names, "organizations")
	}
	if f := owned.Roles; f != nil && !equality.Semantic.DeepEqual(normalRoles(*f), normalRoles(status.Roles)) {
		names = append(names, "roles")
	}
	if f := owned.Suspended; f != nil && *f != isSuspended(status) {
		names = append(names, "suspended")
	}
	return names
}

func (k *Kind) conditions(u object, in intent, was object) []metav1.Condition {
	drifted := drift(in.Owned, u.Status)
	var no []string
	for _, name := range drifted {
		if r, ok := in.Refusals[name]; ok {
			no = append(no, "spec."+name+": "+r.Message)
		}
	}
	sync := registry.True(aggregationv1alpha1.ReasonSynced, "the spec is applied to Coder")
	switch {
	case len(no) > 0:
		sync = registry.False(aggregationv1alpha1.ReasonChangeRefused, "Coder does not accept "+strings.Join(no, "; "))
	case len(drifted) > 0:
		sync = registry.False(aggregationv1alpha1.ReasonDrifted,
			"spec."+strings.Join(drifted, ", spec.")+" differs in Coder and is being applied again")
	}
	ready := registry.True(aggregationv1alpha1.ReasonActive, "the user can log in")
	if u.Status.ServiceAccount {
		ready.Message = "the service account can use Coder with tokens"
	}
	switch {
	case len(drifted) > 0:
		ready = sync
	case isSuspended(u.Status):
		ready = registry.True(aggregationv1alpha1.ReasonSuspended, "the user is suspended")
	case u.Status.State == "dormant":
		// The user has not logged in for long, or never.
		ready = registry.True(aggregationv1alpha1.ReasonDormant, "the user becomes active with the next login")
	}
	reconciling, stalled := registry.False(ready.Reason, ready.Message), registry.False(ready.Reason, ready.Message)
	switch {
	case len(drifted) == 0:
	case sync.Reason == aggregationv1alpha1.ReasonDrifted:
		reconciling.Status = metav1.ConditionTrue
	default:
		stalled.Status = metav1.ConditionTrue
	}
	var before, out []metav1.Condition
	changedAt := u.CreationTimestamp
	if was != nil {
		before, changedAt = was.Status.Conditions, registry.Seconds(k.Clock.Now())
	}
	add := func(kind string, v registry.Verdict) {
		out = registry.AppendCondition(out, before, kind, v, u.Status.ObservedGeneration, changedAt)
	}
	add(aggregationv1alpha1.ConditionReady, ready)
	add(aggregationv1alpha1.ConditionReconciling, reconciling)
	add(aggregationv1alpha1.ConditionStalled, stalled)
	add(aggregationv1alpha1.ConditionSynced, sync)
	return out
}
