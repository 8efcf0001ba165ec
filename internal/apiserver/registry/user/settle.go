package user

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// refusedFor is the delay before a correction that Coder refused is retried.
const refusedFor = 10 * time.Minute

// Adopts implements mirror.Adopter. The username may belong to another person than the one whose
// creation was interrupted. Only service accounts have no email address.
func (k *Kind) Adopts(item coderd.User, pending *metadata.Record) bool {
	in, err := registry.ReadIntent[intent](pending)
	return err == nil && strings.EqualFold(item.Email, in.Email)
}

// Settle implements mirror.Kind. It executes a recorded deletion, and corrects fields that a manifest
// owns and that were changed in Coder.
func (k *Kind) Settle(
	ctx context.Context, connection connections.Connection, item coderd.User, record *metadata.Record,
) (again bool, err error) {
	in, err := registry.ReadIntent[intent](record)
	if err != nil || record == nil {
		return false, err
	}
	s := subjectOf(record.Name, item)
	if record.DeletionDue() {
		if ctx, err = k.Actors.Later(ctx, connection, in.DeletedBy, s); err == nil {
			err = reclaim(ctx, connection.Client, item.ID, in.ReclaimPolicy)
		}
		if err != nil {
			return true, err
		}
		return true, k.Records.Delete(ctx, record)
	}
	lately := func(name string) bool { return !coderd.Elapsed(k.Clock.Now(), in.Refusals[name].At.Time, refusedFor) }
	drifted := k.drift(ctx, connection, item, in.Owned)
	switch {
	case len(drifted) == 0 && len(in.Refusals) > 0:
		in.Refusals = nil
		_, err := k.Save(ctx, record, nil, in.stored())
		return true, err
	case len(slices.DeleteFunc(drifted, lately)) == 0:
		return false, nil
	}
	// The item may come from a list, and the cached roles in organizations are older than that.
	now, err := connection.Client.UserByID(ctx, item.ID)
	if err != nil {
		return true, err
	}
	if drifted = k.drift(ctx, connection, now, in.Owned); len(drifted) == 0 {
		return true, nil
	}
	refusals := map[string]refused{}
	for _, name := range drifted {
		if lately(name) {
			refusals[name] = in.Refusals[name]
			continue
		}
		// A field that Coder refuses does not prevent the correction of the others.
		as, problem := k.Actors.Later(ctx, connection, in.By.of(name), s)
		if problem == nil {
			problem = converge(as, connection.Client, now, in.Owned.only(name))
		}
		// The next attempt creates another token, if Coder does not accept this one.
		temporary, no := coderd.IsUnauthorized(problem), ""
		if problem = k.Fault(record.Name, problem); isRefusal(problem) && !temporary {
			no = problem.Error()
			refusals[name] = refused{Message: no, At: registry.Seconds(k.Clock.Now())}
		} else {
			err = errors.Join(err, problem)
		}
		log.FromContext(ctx).Info("Applied the spec to a user that was changed in Coder", "coderUser", item.Username, "fields", []string{name}, "refused", no)
	}
	if !maps.Equal(refusals, in.Refusals) {
		in.Refusals = refusals
		_, unsaved := k.Save(ctx, record, nil, in.stored())
		err = errors.Join(err, unsaved)
	}
	return true, err
}

func (k *Kind) drift(ctx context.Context, connection connections.Connection, item coderd.User, wanted settings) []string {
	if wanted == (settings{}) {
		return nil
	}
	return drift(wanted, aggregationv1alpha1.CoderUserStatus{
		FullName: item.Name, State: item.Status, Roles: item.Roles, Organizations: k.members.of(ctx, connection, item),
	})
}

// converge changes the fields in Coder that differ from wanted. The user was read alone, or just
// created.
func converge(ctx context.Context, client *coderd.Client, user coderd.User, wanted settings) error {
	if f := wanted.FullName; f != nil && *f != user.Name {
		if err := client.SetFullName(ctx, user, *f); err != nil {
			return err
		}
	}
	if f := wanted.Organizations; f != nil {
		if err := convergeOrganizations(ctx, client, user, *f); err != nil {
			return err
		}
	}
	if f := wanted.Roles; f != nil && !slices.Equal(normalRoles(*f), normalRoles(user.Roles)) {
		if err := client.SetRoles(ctx, user.ID.String(), *f); err != nil {
			return err
		}
	}
	if f := wanted.Suspended; f != nil && *f != user.IsSuspended() {
		return client.SetSuspended(ctx, user, *f)
	}
	return nil
}

func convergeOrganizations(ctx context.Context, client *coderd.Client, user coderd.User, wanted organizations) error {
	known, err := client.Organizations(ctx)
	if err != nil {
		return err
	}
	chosen, err := find(known, wanted)
	if err != nil {
		return err
	}
	ids := map[uuid.UUID]bool{}
	for i, o := range chosen {
		ids[o.ID] = true
		if !slices.Contains(user.OrganizationIDs, o.ID) {
			if err := client.AddMember(ctx, o.ID, user); err != nil {
				return err
			}
		}
		if !slices.Equal(normalRoles(wanted[i].Roles), normalRoles(user.OrganizationRoles[o.ID])) {
			if err := client.SetMemberRoles(ctx, o.ID, user, wanted[i].Roles); err != nil {
				return err
			}
		}
	}
	for _, id := range user.OrganizationIDs {
		if ids[id] {
			continue
		}
		if err := client.RemoveMember(ctx, id, user); err != nil && (coderd.ActedAs(err) != "" || !coderd.IsNotFound(err)) {
			return err
		}
	}
	return nil
}
