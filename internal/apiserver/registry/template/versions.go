package template

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	// maxVersions is the number of versions of a template that have an object of their own, and maxVersionsText the size
	// of their texts in bytes.
	maxVersions, maxVersionsText = 100, 64 << 10
	// maxVersionText is the size of the message and of the error of a version.
	maxVersionText = 1024
	// exitStatus is in the error of a build if Coder does not report why it failed.
	exitStatus = "exit status"
)

// versionsOf returns the versions that have an object of their own. The previous object may be nil.
//
// Coder's list has no archived versions. They are read once, before there is a previous object. A version that was listed before and is
// not any more was archived since.
func (k *Kind) versionsOf(ctx context.Context, s *snapshot, old object) *aggregationv1alpha1.TemplateVersions {
	known := &aggregationv1alpha1.TemplateVersions{}
	if old != nil && old.Status.Versions != nil {
		known = old.Status.Versions
	}
	if s.page.readAt.Before(known.ReadAt.Time) {
		// Another replica has read a newer page.
		return known
	}
	before, hashes := map[string]*aggregationv1alpha1.CoderTemplateVersion{}, map[string]string{}
	for i := range known.Items {
		v := &known.Items[i]
		before[v.Status.ID] = v
		if v.Status.SourceSHA256 != "" {
			hashes[v.Status.FileID] = v.Status.SourceSHA256
		}
	}
	if s.source.hash != "" {
		hashes[s.source.file.String()] = s.source.hash
	}
	now := map[string]coderd.TemplateVersion{}
	var all []aggregationv1alpha1.CoderTemplateVersion
	// The shown and the latest version may be newer than the page.
	for _, v := range slices.Concat([]coderd.TemplateVersion{s.shown, s.latest, s.page.active}, s.page.versions, s.page.archived) {
		id := v.ID.String()
		if _, done := now[id]; v.ID != uuid.Nil && !done {
			now[id] = v
			next := versionOf(v, before[id])
			next.Status.SourceSHA256 = hashes[next.Status.FileID]
			all = append(all, next)
		}
	}
	for i := range known.Items {
		v := known.Items[i]
		if _, listed := now[v.Status.ID]; !listed {
			v.Status.Archived = true
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b aggregationv1alpha1.CoderTemplateVersion) int {
		return cmp.Or(b.Status.CreatedAt.Compare(a.Status.CreatedAt.Time), cmp.Compare(b.Status.ID, a.Status.ID))
	})
	next := &aggregationv1alpha1.TemplateVersions{ReadAt: metav1.NewMicroTime(s.page.readAt.Truncate(time.Microsecond)), More: known.More && !s.page.all}
	next.Items = slices.DeleteFunc(all, leaveOut(s, &next.More))
	// Only the logs of versions that have an object are read.
	for i := range next.Items {
		status := &next.Items[i].Status
		if v, listed := now[status.ID]; listed && strings.Contains(status.Error, exitStatus) {
			status.Error = redaction.Truncate(k.withCause(ctx, s.connection, v).Error, maxVersionText)
		}
	}
	named(next.Items)
	if next.More == known.More && equality.Semantic.DeepEqual(next.Items, known.Items) {
		return known
	}
	return next
}

// leaveOut returns a function that is called for each version, the newest first. It reports whether the version gets no object, and
// sets more then.
func leaveOut(s *snapshot, more *bool) func(aggregationv1alpha1.CoderTemplateVersion) bool {
	count, text := 0, 0
	return func(v aggregationv1alpha1.CoderTemplateVersion) bool {
		count, text = count+1, text+len(v.Status.Message)+len(v.Status.Error)
		if count <= maxVersions && text <= maxVersionsText || v.Status.ID == s.page.active.ID.String() || v.Status.ID == s.shown.ID.String() {
			return false
		}
		*more = true
		return true
	}
}

// versionOf converts a version. before is its previous state, or nil.
func versionOf(v coderd.TemplateVersion, before *aggregationv1alpha1.CoderTemplateVersion) aggregationv1alpha1.CoderTemplateVersion {
	if before != nil && failed(v) && before.Status.JobStatus == v.Status && !strings.Contains(before.Status.Error, exitStatus) {
		// Its log need not be read again.
		v.Error = before.Status.Error
	}
	out := aggregationv1alpha1.CoderTemplateVersion{
		Status: aggregationv1alpha1.CoderTemplateVersionStatus{
			ID: v.ID.String(), VersionName: v.Name, Archived: v.Archived, JobStatus: v.Status, FileID: v.FileID.String(), CreatedBy: v.CreatedBy,
			Message: redaction.Truncate(v.Message, maxVersionText), Error: redaction.Truncate(v.Error, maxVersionText),
			StartedAt: seconds(v.StartedAt), CompletedAt: seconds(v.CompletedAt),
		},
	}
	if seconds(&v.CreatedAt) != nil {
		out.Status.CreatedAt = metav1.NewMicroTime(v.CreatedAt.UTC().Truncate(time.Microsecond))
	}
	if before != nil {
		out.Name = before.Name
	}
	return out
}

// seconds returns nil for a time that the JSON of an object cannot have.
func seconds(t *time.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	if out := registry.Seconds(*t); !out.IsZero() {
		return &out
	}
	return nil
}

// named sets the last part of the names of new versions. A version keeps the name that it has.
func named(versions []aggregationv1alpha1.CoderTemplateVersion) {
	taken := map[string]bool{}
	for _, v := range versions {
		taken[v.Name] = true
	}
	for i := range slices.Backward(versions) {
		v := &versions[i]
		if v.Name != "" {
			continue
		}
		v.Name = metadata.VersionPart(v.Status.VersionName, v.Status.ID)
		if taken[v.Name] {
			// A version that was renamed has it, or one whose id begins with the same digits.
			v.Name = metadata.NameWithID("version", v.Status.ID)
		}
		taken[v.Name] = true
	}
}

// objectsOf returns the CoderTemplateVersions of a template, with their resource version.
func objectsOf(tmpl object, resourceVersion string) []aggregationv1alpha1.CoderTemplateVersion {
	if tmpl.Status.Versions == nil {
		return nil
	}
	// The objects are never modified, so they share these.
	labels := map[string]string{}
	for _, label := range aggregationv1alpha1.ControlPlaneLabels() {
		if value, ok := tmpl.Labels[label]; ok {
			labels[label] = value
		}
	}
	if name, err := metadata.ParseTemplateName(metadata.NameWithoutID(tmpl.Name)); err == nil {
		labels[aggregationv1alpha1.LabelTemplate], labels[aggregationv1alpha1.LabelOrganization] = name.Name, name.Organization
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return len(value) > validation.LabelValueMaxLength })
	owners := []metav1.OwnerReference{{
		APIVersion: aggregationv1alpha1.GroupVersion.String(), Kind: info.Kind, Name: tmpl.Name, UID: tmpl.UID, Controller: ptr.To(true),
	}}
	fields := metadata.ManagedFields()
	out := slices.Clone(tmpl.Status.Versions.Items)
	for i := range out {
		v := &out[i]
		v.Name, v.Namespace, v.ResourceVersion = tmpl.Name+"."+v.Name, tmpl.Namespace, resourceVersion
		v.UID = registry.UIDOf(string(tmpl.UID), versionInfo.Kind, v.Status.ID)
		v.CreationTimestamp = registry.Seconds(v.Status.CreatedAt.Time)
		v.Labels, v.OwnerReferences, v.ManagedFields, v.Generation = labels, owners, fields, 1
		v.Status.Active = v.Status.ID == tmpl.Status.ActiveVersionID
		v.Status.Template = tmpl.Name
	}
	return out
}

// VersionPlural is the name of the resource of versions.
const VersionPlural = "codertemplateversions"

type versionObject = *aggregationv1alpha1.CoderTemplateVersion

var versionInfo = registry.ResourceInfo[versionObject]{
	Plural: VersionPlural, Singular: "codertemplateversion", Kind: "CoderTemplateVersion", ShortNames: []string{"ctv"}, InCoder: "template",
	New:       func() runtime.Object { return &aggregationv1alpha1.CoderTemplateVersion{} },
	NewList:   func() runtime.Object { return &aggregationv1alpha1.CoderTemplateVersionList{} },
	ParseName: parseVersionName,
	Fields: map[string]func(versionObject) string{
		"status.id":          func(v versionObject) string { return v.Status.ID },
		"status.versionName": func(v versionObject) string { return v.Status.VersionName },
		"status.active":      func(v versionObject) string { return strconv.FormatBool(v.Status.Active) },
		"status.archived":    func(v versionObject) string { return strconv.FormatBool(v.Status.Archived) },
		"status.jobStatus":   func(v versionObject) string { return v.Status.JobStatus },
		"status.template":    func(v versionObject) string { return v.Status.Template },
	},
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the object: organization, template and version."},
		{Name: "Version", Type: "string", Description: "The current name in Coder."},
		{Name: "Status", Type: "string", Description: "The status of its build."},
		{Name: "Active", Type: "boolean", Description: "Whether workspaces are built from it."},
		{Name: "Created by", Type: "string", Description: "The user in Coder who created it."},
		{Name: "Age", Type: "string", Description: "Time since it was created."},
		{Name: "Archived", Type: "boolean", Priority: 1, Description: "Whether it is hidden from users."},
		{Name: "ID", Type: "string", Priority: 1, Description: "Its UUID in Coder."},
		{Name: "Message", Type: "string", Priority: 1, Description: "What describes it."},
		{Name: "Reason", Type: "string", Priority: 1, Description: "Why its build failed."},
	},
	Row: func(v versionObject, ages registry.Ages) []any {
		s := v.Status
		return []any{v.Name, s.VersionName, s.JobStatus, s.Active, s.CreatedBy, ages.Since(&v.CreationTimestamp), s.Archived, s.ID, s.Message, s.Error}
	},
}

// parseVersionName returns the parts of the name of the template of a version.
func parseVersionName(name string) (metadata.Name, error) {
	tmpl, part := splitVersionName(name)
	parsed, err := metadata.ParseTemplateName(metadata.NameWithoutID(tmpl))
	if err != nil || part == "" {
		return metadata.Name{}, fmt.Errorf("must be <organization>.<template>.<version>, or <control-plane>.<organization>.<template>.<version> for a control plane that is not the first of its namespace")
	}
	return parsed, nil
}

// splitVersionName returns the name of the template of a version, and the last part of its own name.
func splitVersionName(name string) (tmpl, part string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// readVerbs are the verbs of a read-only resource. It is in no category: kubectl get coder would list all versions.
type readVerbs interface {
	rest.Storage
	rest.Scoper
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.StorageWithReadiness
}

// versionREST serves versions. It has none of the other verbs of registry.REST.
type versionREST struct{ readVerbs }

// versionRecords are the records of templates, for the verbs of versions.
type versionRecords struct{ registry.LocalRecords }

// Revision implements registry.LocalRecords.
func (r versionRecords) Revision() uint64 { return complete(r.LocalRecords.Revision()) }

// FirstName implements registry.LocalRecords.
func (r versionRecords) FirstName(namespace, name string) string {
	tmpl, part := splitVersionName(name)
	if first := r.LocalRecords.FirstName(namespace, tmpl); first != "" {
		return first + "." + part
	}
	return ""
}

// Versions returns the storages of codertemplateversions and its subresources. Templates is that of codertemplates, and local its records.
func (k *Kind) Versions(
	codecs serializer.CodecFactory, gate *registry.Gate, templates *registry.REST, local registry.LocalRecords,
) (map[string]rest.Storage, error) {
	base := registry.NewBase(&versionInfo, k.Config)
	decorate := func(_ *storagebackend.ConfigForResource, _ string, _ func(runtime.Object) (string, error), _, _ func() runtime.Object,
		_ storage.AttrFunc, _ storage.IndexerFuncs, _ *toolscache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return newVersionStorage(templates.Storage.Storage), func() {}, nil
	}
	verbs, err := registry.NewREST(base.Registry(k.strategy(), k), codecs, decorate, gate, versionRecords{local})
	if err != nil {
		return nil, err
	}
	files := &filesREST{versionInfo.New, &reader{kind: k, store: templates}}
	return map[string]rest.Storage{VersionPlural: versionREST{verbs}, VersionPlural + "/files": &versionFilesREST{files, verbs}}, nil
}

// Built is called when a version of a template is being built, or was built, so that its versions are read again.
func (k *Kind) Built(controlPlane types.NamespacedName, template uuid.UUID) {
	k.versions.forget(controlPlane, template)
}
