package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Config configures the implementation of any kind.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Typer       runtime.ObjectTyper
	Clock       clock.PassiveClock
	// Actors determines the Coder users that callers act as. If nil, they act as the operator.
	Actors *impersonation.Actors
	// Hints notify the mirror of objects that change. It may be nil.
	Hints Hints
	// Workspaces returns the known workspaces of a control plane. It may be nil.
	Workspaces func(controlPlane types.NamespacedName) []*aggregationv1alpha1.CoderWorkspace
}

// Hints notify the mirror.
type Hints interface {
	// Object reports that an object of a kind changes.
	Object(kind string, controlPlane types.NamespacedName, id uuid.UUID)
}

// Base is the part of the implementation that all kinds share.
type Base[T Object] struct {
	*ResourceInfo[T]
	Config
}

// NewBase returns the Base of a kind.
func NewBase[T Object](info *ResourceInfo[T], config Config) Base[T] {
	return Base[T]{ResourceInfo: info, Config: config}
}

// Hint notifies the mirror that an object changes.
func (b *Base[T]) Hint(controlPlane types.NamespacedName, id uuid.UUID) {
	if b.Hints != nil {
		b.Hints.Object(b.Kind, controlPlane, id)
	}
}

// NewMeta returns the metadata of an object that is converted from Coder.
func (b *Base[T]) NewMeta(connection connections.Connection, name string, id uuid.UUID, createdAt time.Time) metav1.ObjectMeta {
	// Coder chooses the id, and the objects of two control planes may have the same one.
	owner := cmp.Or(string(connection.UID), connection.ControlPlane.String())
	return metav1.ObjectMeta{
		Name: name, Namespace: connection.ControlPlane.Namespace, UID: UIDOf(owner, b.Kind, id.String()), CreationTimestamp: Seconds(createdAt),
		Generation: 1, Labels: Labels(connection.ControlPlane), ManagedFields: metadata.ManagedFields(),
	}
}

// UIDOf returns the UID of the object with an id, as a hash with what makes the id unique.
func UIDOf(owner, kind, id string) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(owner+"/"+kind+"/"+id)).String())
}

// Continue sets the UID of an object that has the metadata of its record to that of its previous state, and
// its generation to the one that follows. A change of the spec that was made in Coder counts too. previous may be nil.
func (b *Base[T]) Continue(obj, previous T) {
	var none T
	if previous == none {
		return
	}
	obj.SetUID(previous.GetUID())
	least := previous.GetGeneration()
	if !equality.Semantic.DeepEqual(b.Spec(obj), b.Spec(previous)) {
		least++
	}
	obj.SetGeneration(max(obj.GetGeneration(), least))
}

// Save stores an intent in a record, and the metadata of an object unless it is nil. It returns the
// new record.
func (b *Base[T]) Save(ctx context.Context, record *metadata.Record, obj T, intent any) (*metadata.Record, error) {
	record, err := b.withIntent(record, obj, intent)
	if err != nil {
		return nil, err
	}
	return b.Records.Put(ctx, record)
}

// BindPending is like Save, for the pending record of an object that was created.
func (b *Base[T]) BindPending(ctx context.Context, record *metadata.Record, obj T, intent any, id uuid.UUID) (*metadata.Record, error) {
	record, err := b.withIntent(record, obj, intent)
	if err != nil {
		return nil, err
	}
	return b.Records.Bind(ctx, record, types.UID(id.String()))
}

func (b *Base[T]) withIntent(record *metadata.Record, obj T, intent any) (*metadata.Record, error) {
	data, err := json.Marshal(intent)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("writing the intent of %s %q: %w", record.Kind, record.Name, err))
	}
	record = record.DeepCopy()
	var none T
	if obj != none {
		metadata.Keep(obj, record)
	}
	record.Intent = nil
	if string(data) != "{}" {
		record.Intent = data
	}
	return record, nil
}

// Locate returns the connection of an object and its ID in Coder.
func (b *Base[T]) Locate(ctx context.Context, obj T) (connections.Connection, uuid.UUID, error) {
	conflict := func(format string, args ...any) (connections.Connection, uuid.UUID, error) {
		return connections.Connection{}, uuid.Nil, apierrors.NewConflict(b.GroupResource(), obj.GetName(), fmt.Errorf(format, args...))
	}
	id, err := uuid.Parse(string(records.IDOf(obj)))
	if err != nil {
		return conflict("its status.id %q is not an id in Coder", records.IDOf(obj))
	}
	connection, err := Connection(ctx, b.Connections, obj.GetNamespace(), b.Prefix(obj.GetName()))
	if err != nil {
		return connections.Connection{}, uuid.Nil, err
	}
	if connection == nil || connection.ControlPlane != metadata.ControlPlaneOf(obj) {
		return conflict("its control plane %s is not served any more", metadata.ControlPlaneOf(obj))
	}
	return *connection, id, nil
}

// Connection returns the connection of the control plane whose objects in the namespace have the
// prefix. It returns nil if there is none. Errors are API statuses.
func Connection(ctx context.Context, provider connections.Provider, namespace, prefix string) (*connections.Connection, error) {
	found, err := provider.ForNamespace(ctx, namespace)
	for i := range found {
		if found[i].NamePrefix == prefix {
			return &found[i], nil
		}
	}
	// A control plane that is not ready may be the one with this prefix.
	return nil, coderfault.Subject{}.Status(err)
}

// Organization returns the organization of a new object. An error that the user must fix is a
// *field.Error.
//
// Coder accepts "default" as another name of its first organization. In a spec, the alias is
// resolved. In an object's name it is rejected with an error that names the real one, because
// Kubernetes expects an object back under the name that the client sent.
func Organization(
	ctx context.Context, connection connections.Connection, inSpec, inName string,
) (coderd.Organization, error) {
	namePath, specPath := field.NewPath("metadata", "name"), field.NewPath("spec", "organization")
	found, err := connection.Client.OrganizationByName(ctx, inName)
	if coderd.IsNotFound(err) {
		return found, field.Invalid(namePath, inName, fmt.Sprintf("there is no organization %q in Coder", inName))
	}
	if err != nil {
		return found, err
	}
	if !strings.EqualFold(found.Name, inName) {
		return found, field.Invalid(namePath, inName, fmt.Sprintf(
			"%q is an alias of organization %q, and object names must contain the real name: use %q", inName, found.Name,
			strings.ToLower(found.Name)))
	}
	if inSpec == coderd.DefaultOrganization && !found.IsDefault && !strings.EqualFold(found.Name, inSpec) {
		return found, field.Invalid(specPath, inSpec, fmt.Sprintf(
			"the default organization is not %q, the organization in metadata.name", inName))
	}
	return found, nil
}

// Newer returns the error of a change that is based on an outdated object, with the object as it is in Coder now.
func (b *Base[T]) Newer(controlPlane types.NamespacedName, id uuid.UUID, now T) error {
	b.Hint(controlPlane, id)
	return records.Newer(b.GroupResource(), now)
}

// Found is an object with its connection and its ID in Coder.
type Found[T Object] struct {
	Object     T
	Connection connections.Connection
	ID         uuid.UUID
}

// Find reads an object for one of its subresources, and locates it.
func (b *Base[T]) Find(ctx context.Context, store Store, name string) (found Found[T], err error) {
	obj, err := store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return found, err
	}
	if found.Object, err = b.Cast(obj); err != nil {
		return found, err
	}
	found.Connection, found.ID, err = b.Locate(ctx, found.Object)
	return found, err
}

// LocateToChange is like Locate. If the object is only deleted, the connection has no client while
// Coder is unreachable: a deletion that needs no Coder user is recorded nevertheless.
func (b *Base[T]) LocateToChange(ctx context.Context, obj T, deletes bool) (connections.Connection, uuid.UUID, error) {
	connection, id, err := b.Locate(ctx, obj)
	if err == nil || !deletes {
		return connection, id, err
	}
	members, problem := b.Connections.Members(ctx)
	controlPlane := metadata.ControlPlaneOf(obj)
	i := slices.IndexFunc(members, func(m connections.Member) bool { return m.ControlPlane == controlPlane && !m.Deleting })
	if problem != nil || i < 0 {
		return connections.Connection{}, id, err
	}
	return connections.Connection{ControlPlane: controlPlane, UID: members[i].UID, Rules: members[i].Rules}, id, nil
}

// RecordOf returns a copy of the record of an object, or a new record if there is none.
func (b *Base[T]) RecordOf(obj T) *metadata.Record {
	controlPlane := metadata.ControlPlaneOf(obj)
	if known, ok := b.Records.Get(controlPlane, records.IDOf(obj)); ok {
		record := known.DeepCopy()
		record.Name = obj.GetName()
		return record
	}
	return &metadata.Record{ControlPlane: controlPlane, Kind: b.Kind, Name: obj.GetName(), UID: records.IDOf(obj)}
}

// LocateNew returns the connection for a new object. Errors are API statuses.
func (b *Base[T]) LocateNew(ctx context.Context, obj T) (connections.Connection, error) {
	name, err := b.ParseName(obj.GetName())
	if err != nil {
		return connections.Connection{}, b.Invalid(obj.GetName(), field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), err.Error()))
	}
	connection, err := Connection(ctx, b.Connections, obj.GetNamespace(), name.Prefix)
	if err != nil {
		return connections.Connection{}, err
	}
	if connection == nil {
		problem := fmt.Sprintf("no CoderControlPlane of this namespace has the prefix %q in status.objectNamePrefix", name.Prefix)
		if name.Prefix == "" {
			problem = "no CoderControlPlane of this namespace serves objects without a prefix in their names; create one, or add the prefix (status.objectNamePrefix)"
		}
		path := field.NewPath("metadata", "namespace")
		return connections.Connection{}, b.Invalid(obj.GetName(), field.Invalid(path, obj.GetNamespace(), problem))
	}
	return *connection, nil
}

// BeginAt determines the Coder user that the caller acts as to change an object that was located. It
// also checks the permission to delete it for the start of a deletion, and for a new owner reference,
// because the garbage collector deletes objects because of owner references.
func (b *Base[T]) BeginAt(
	ctx context.Context, connection connections.Connection, id uuid.UUID, was, wanted T, s impersonation.Subject,
) (context.Context, *impersonation.As, error) {
	deletes, addsOwner := Deletes(ctx, was, wanted), AddsOwner(was, wanted)
	// The garbage collector never changes anything else.
	s.Deletes = deletes && !addsOwner && equality.Semantic.DeepEqual(b.Spec(was), b.Spec(wanted))
	ctx, as, err := b.Actors.Begin(ctx, connection, s)
	if err == nil && as != nil && (deletes || addsOwner) {
		err = b.MayDelete(ctx, connection, s, id)
	}
	return ctx, as, err
}

// MayDelete returns an error if Coder would refuse the deletion of an object.
func (b *Base[T]) MayDelete(ctx context.Context, connection connections.Connection, s impersonation.Subject, id uuid.UUID) error {
	return impersonation.May(ctx, connection.Client, s, coderd.Permission{Resource: b.InCoder, Action: "delete", ID: id})
}

// Deleted returns the object as a client would send it to delete it.
func (b *Base[T]) Deleted(obj T) T {
	out := obj.DeepCopyObject().(T)
	if out.GetDeletionTimestamp() == nil {
		out.SetDeletionTimestamp(ptr.To(metav1.NewTime(b.Clock.Now())))
	}
	out.SetDeletionGracePeriodSeconds(ptr.To[int64](0))
	return out
}

// CheckUnused returns a conflict if a workspace uses an object. It accepts an object with finalizers,
// because a request to delete it is only recorded. query is Coder's query for these workspaces.
func (b *Base[T]) CheckUnused(ctx context.Context, obj T, query string) error {
	if len(obj.GetFinalizers()) > 0 {
		return nil
	}
	connection, _, err := b.Locate(ctx, obj)
	if err != nil {
		return err
	}
	used, err := connection.Client.HasWorkspaces(ctx, query)
	if err != nil {
		return b.Fault(obj.GetName(), err)
	}
	if used {
		return apierrors.NewConflict(b.GroupResource(), obj.GetName(), errors.New("delete its workspaces first"))
	}
	return nil
}

// Deletes reports whether an update requests the deletion of an object. The Store sets the grace
// period then. A deletion that was only started in Coder has a timestamp and no grace period. A
// deletion that was requested before can be requested again, by another caller.
func Deletes(ctx context.Context, was, wanted metav1.Object) bool {
	return wanted.GetDeletionGracePeriodSeconds() != nil && (was.GetDeletionGracePeriodSeconds() == nil || records.IsDeletion(ctx))
}

// AddsOwner reports whether an update adds an owner reference, or makes one refer to another object. The
// garbage collector looks for an owner by its kind and name, and compares the uid.
func AddsOwner(was, wanted metav1.Object) bool {
	return slices.ContainsFunc(wanted.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return !slices.ContainsFunc(was.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
			// The garbage collector changes the other fields.
			o.Controller, o.BlockOwnerDeletion = r.Controller, r.BlockOwnerDeletion
			return o == r
		})
	})
}

// ChangesFieldOwners reports whether an update changes which managers own fields of the spec. Server-side apply can
// take over a field without a change of its value.
func ChangesFieldOwners(was, wanted metav1.Object) bool {
	return !maps.EqualFunc(specOwners(was), specOwners(wanted), (*fieldpath.Set).Equals)
}

// specOwners returns the fields of the spec that each manager owns. A field set that cannot be parsed owns nothing.
func specOwners(obj metav1.Object) map[string]*fieldpath.Set {
	spec := fieldpath.PathElement{FieldName: ptr.To("spec")}
	owned := map[string]*fieldpath.Set{}
	for _, entry := range obj.GetManagedFields() {
		var all fieldpath.Set
		if entry.FieldsV1 == nil || all.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
			continue
		}
		if fields := all.WithPrefix(spec); !fields.Empty() {
			owned[string(entry.Operation)+"/"+entry.Manager+"/"+entry.Subresource] = fields
		}
	}
	return owned
}

// Operations create, update and delete objects in Coder. Errors are API statuses.
type Operations[T Object] struct {
	Create func(ctx context.Context, wanted T) (T, error)
	Update func(ctx context.Context, was, wanted T) (T, error)
	Delete func(ctx context.Context, was T) (T, error)
}

// Write implements records.Writer.
func (o Operations[T]) Write(ctx context.Context, key string, current, wanted records.Object) (records.Object, error) {
	was, _ := current.(T)
	shall, _ := wanted.(T)
	var out, none T
	var err error
	switch {
	case was != none && shall != none:
		out, err = o.Update(ctx, was, shall)
	case was != none:
		out, err = o.Delete(ctx, was)
	case shall != none:
		out, err = o.Create(ctx, shall)
	default:
		err = apierrors.NewInternalError(fmt.Errorf("bug: a write of %T to %T at %s", current, wanted, key))
	}
	if err != nil || out == none {
		// A nil pointer in an interface is not nil.
		return nil, err
	}
	return out, nil
}

// ReadIntent reads the intent in a record, which may be nil.
func ReadIntent[I any](record *metadata.Record) (I, error) {
	var in I
	if record == nil || len(record.Intent) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(record.Intent, &in); err != nil {
		return in, fmt.Errorf("the intent in the record of %s %q cannot be decoded; it was edited manually, or written by a newer version: %w", record.Kind, record.Name, err)
	}
	return in, nil
}

// Secrets reads the Secrets to which specs refer.
type Secrets struct {
	// Read reads one key of a Secret. Its errors are API statuses. NotFound means that the Secret or
	// the key does not exist.
	Read func(ctx context.Context, namespace, name, key string) (string, error)
	// MayRead returns nil if the user has permission to get the Secret. Its errors are API statuses,
	// Forbidden if the user has no permission. If MayRead itself is nil, no permission is checked.
	MayRead func(ctx context.Context, who user.Info, namespace, secret string) error
}

// Check returns an error if the caller has no permission to get the Secret that a spec names at
// path.
func (s Secrets) Check(ctx context.Context, namespace, secret string, path *field.Path) *field.Error {
	if s.MayRead == nil {
		return nil
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return field.Forbidden(path, "the user of the request is not known, so no Secret is read")
	}
	switch err := s.MayRead(ctx, who, namespace, secret); {
	case apierrors.IsForbidden(err):
		return field.Forbidden(path, fmt.Sprintf("user %s may not get Secret %s in namespace %s", who.GetName(), secret, namespace))
	case err != nil:
		return field.InternalError(path, err)
	}
	return nil
}
