package template

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

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
