package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// Cluster is the cluster that the flags and the kubeconfig select.
type Cluster struct {
	client.Client
	// Kube is for requests that are not for objects: logs, the server's version, port-forwards.
	Kube   kubernetes.Interface
	Config *rest.Config
	// Namespace is the namespace of the flags, or else of the kubeconfig's context.
	Namespace string
}

// Cluster returns the clients for the cluster. It sends no request.
func (s *Session) Cluster() (*Cluster, error) {
	config, err := s.Kubeconfig.Cluster("kubectl-" + version.UserAgent())
	if err != nil {
		return nil, err
	}
	namespace, _, err := s.Kubeconfig.Loader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("finding the namespace: %w", err)
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(corev1.AddToScheme, appsv1.AddToScheme, coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme)
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	namespaced := func(group schema.GroupVersion, kinds ...string) {
		for _, kind := range kinds {
			mapper.Add(group.WithKind(kind), meta.RESTScopeNamespace)
		}
	}
	namespaced(coderv1alpha1.GroupVersion,
		"CoderControlPlane", "CoderProvisioner", "CoderWorkspaceProxy", "CoderBackup", "CoderBackupSchedule")
	// CoderSelfReview can be created but not read.
	namespaced(aggregationv1alpha1.GroupVersion, "CoderTemplate", "CoderTemplateVersion", "CoderWorkspace", "CoderSelfReview")
	namespaced(corev1.SchemeGroupVersion, "Pod", "Service", "Secret", "PersistentVolumeClaim")
	namespaced(appsv1.SchemeGroupVersion, "Deployment")
	mapper.Add(upgrade.CloudNativePGBackup, meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Cluster{Client: c, Kube: kube, Config: config, Namespace: namespace}, nil
}

// IsTemporary reports whether a failed request may succeed soon, for example because a replica of
// the operator restarts.
func IsTemporary(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// subresource returns a request for a subresource of a workspace or template. Empty parameters are
// left out.
func (c *Cluster) subresource(verb string, of client.Object, subresource string, parameters map[string]string) *rest.Request {
	resource := "coderworkspaces"
	if _, ok := of.(*aggregationv1alpha1.CoderTemplate); ok {
		resource = "codertemplates"
	}
	request := c.Kube.CoreV1().RESTClient().Verb(verb).AbsPath("/apis/" + aggregationv1alpha1.GroupVersion.String()).
		Namespace(of.GetNamespace()).Resource(resource).Name(of.GetName()).SubResource(subresource)
	for key, value := range parameters {
		if value != "" {
			request.Param(key, value)
		}
	}
	return request
}

// send sends a request and decodes the response.
func send(ctx context.Context, request *rest.Request, into any) error {
	result := request.SetHeader("Accept", "application/json").Do(ctx)
	// Unlike the error of Raw, this error contains the message of the response.
	if err := result.Error(); err != nil {
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	return nil
}

// templateKey identifies a template by its control plane and its current names in Coder. The names
// of objects do not identify the template of a workspace, because they are the first names.
type templateKey struct{ namespace, controlPlane, organization, name string }

func templateOf(ws *aggregationv1alpha1.CoderWorkspace) templateKey {
	return templateKey{ws.Namespace, ws.Labels[aggregationv1alpha1.LabelControlPlaneName], ws.Status.OrganizationName, ws.Status.TemplateName}
}

// templates returns the templates of a namespace, or of all namespaces if it is empty.
func (c *Cluster) templates(ctx context.Context, namespace string) (map[templateKey]aggregationv1alpha1.CoderTemplate, error) {
	var list aggregationv1alpha1.CoderTemplateList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("reading the templates: %w", err)
	}
	all := map[templateKey]aggregationv1alpha1.CoderTemplate{}
	for _, t := range list.Items {
		plane := t.Labels[aggregationv1alpha1.LabelControlPlaneName]
		all[templateKey{t.Namespace, plane, t.Status.OrganizationName, t.Status.TemplateName}] = t
	}
	return all, nil
}

// templateVersions returns the versions of a template that are served, the newest first.
func (c *Cluster) templateVersions(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) ([]aggregationv1alpha1.CoderTemplateVersion, error) {
	var list aggregationv1alpha1.CoderTemplateVersionList
	if err := c.List(ctx, &list, client.InNamespace(tmpl.Namespace), client.MatchingFields{"status.template": tmpl.Name}); err != nil {
		return nil, fmt.Errorf("reading the versions of template %s: %w", tmpl.Name, err)
	}
	slices.SortFunc(list.Items, func(a, b aggregationv1alpha1.CoderTemplateVersion) int {
		return b.Status.CreatedAt.Compare(a.Status.CreatedAt.Time)
	})
	return list.Items, nil
}

// TemplateVersion returns the UUID of a version of a template, by its name or UUID. The version of a UUID may be older than those that
// are served.
func (c *Cluster) TemplateVersion(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate, nameOrID string) (string, error) {
	// The author of a version may have given it the UUID of another one as its name.
	if id, err := uuid.Parse(nameOrID); err == nil && strings.EqualFold(nameOrID, id.String()) {
		return id.String(), nil
	}
	versions, err := c.templateVersions(ctx, tmpl)
	if err != nil {
		return "", err
	}
	var seen []string
	for _, v := range versions {
		if v.Status.VersionName == nameOrID || v.Name == nameOrID {
			return v.Status.ID, nil
		}
		seen = append(seen, v.Status.VersionName)
	}
	const most = 5
	return "", fmt.Errorf("template %s has no version %q; the newest of its %d are %s; an older one needs its UUID",
		tmpl.Name, nameOrID, len(seen), strings.Join(seen[:min(len(seen), most)], ", "))
}
