package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
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
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: newMapper()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Cluster{Client: c, Kube: kube, Config: config, Namespace: namespace}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Kinds returns the kinds of which the plugin reads objects. All are namespaced.
func Kinds() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	add := func(gv schema.GroupVersion, kinds ...string) {
		for _, kind := range kinds {
			all = append(all, gv.WithKind(kind))
		}
	}
	add(coderv1alpha1.GroupVersion, "CoderControlPlane", "CoderProvisioner", "CoderWorkspaceProxy")
	add(aggregationv1alpha1.GroupVersion, "CoderTemplate", "CoderWorkspace")
	add(corev1.SchemeGroupVersion, "Pod", "Service", "ServiceAccount", "Secret")
	add(appsv1.SchemeGroupVersion, "Deployment", "ReplicaSet")
	add(policyv1.SchemeGroupVersion, "PodDisruptionBudget")
	add(networkingv1.SchemeGroupVersion, "Ingress", "NetworkPolicy")
	add(rbacv1.SchemeGroupVersion, "Role", "RoleBinding")
	add(schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}, "HTTPRoute")
	add(schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}, "ServiceMonitor")
	return all
}

func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range Kinds() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	// CoderSelfReview can be created but not read.
	mapper.Add(aggregationv1alpha1.GroupVersion.WithKind("CoderSelfReview"), meta.RESTScopeNamespace)
	return mapper
}

// Reach returns nil if kube-apiserver answers, even with an error status.
func (c *Cluster) Reach(ctx context.Context) error {
	err := c.Kube.CoreV1().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return nil
	}
	return fmt.Errorf("the cluster cannot be reached: %w", err)
}

// IsTemporary reports whether a failed request may succeed soon, for example because a replica of
// the operator restarts.
func IsTemporary(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// Stream reads a subresource of the aggregated API that is not an object. The caller closes the
// result.
func (c *Cluster) Stream(ctx context.Context, namespace, resource, name, subresource string, query map[string]string) (io.ReadCloser, error) {
	request := c.Kube.CoreV1().RESTClient().Get().AbsPath("/apis/" + aggregationv1alpha1.GroupVersion.String()).
		Namespace(namespace).Resource(resource).Name(name).SubResource(subresource)
	for key, value := range query {
		request = request.Param(key, value)
	}
	return request.Stream(ctx)
}

// ReadSubresource reads a subresource of the aggregated API and decodes it.
func (c *Cluster) ReadSubresource(ctx context.Context, of client.Object, resource, subresource string, into any) error {
	return c.decode(ctx, of.GetNamespace(), resource, of.GetName(), subresource, nil, into)
}

// DeleteSubresource deletes a subresource of the aggregated API, and decodes the answer.
func (c *Cluster) DeleteSubresource(ctx context.Context, of client.Object, resource, subresource string, options *metav1.DeleteOptions, into any) error {
	options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	result := c.Kube.CoreV1().RESTClient().Delete().AbsPath("/apis/"+aggregationv1alpha1.GroupVersion.String()).
		Namespace(of.GetNamespace()).Resource(resource).Name(of.GetName()).SubResource(subresource).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx)
	// Unlike the error of Raw, this error contains the message of the response.
	if err := result.Error(); err != nil {
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// TemplateVersion returns a version of a template by its name or UUID.
func (c *Cluster) TemplateVersion(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate, nameOrID string) (aggregationv1alpha1.CoderTemplateVersion, error) {
	var seen []string
	query := map[string]string{"archived": "true", "limit": "200"}
	for {
		var list aggregationv1alpha1.CoderTemplateVersionList
		if err := c.decode(ctx, tmpl.Namespace, "codertemplates", tmpl.Name, "versions", query, &list); err != nil {
			return aggregationv1alpha1.CoderTemplateVersion{}, fmt.Errorf("reading the versions of template %s: %w", tmpl.Name, err)
		}
		for _, v := range list.Items {
			if v.ID == nameOrID || v.Name == nameOrID {
				return v, nil
			}
			seen = append(seen, v.Name)
		}
		if list.Continue == "" {
			break
		}
		query["after"] = list.Continue
	}
	const most = 5
	return aggregationv1alpha1.CoderTemplateVersion{}, fmt.Errorf("template %s has no version %q; the newest of its %d are %s",
		tmpl.Name, nameOrID, len(seen), strings.Join(seen[:min(len(seen), most)], ", "))
}

// TemplateVersionNames returns the names of the newest versions of a template.
func (c *Cluster) TemplateVersionNames(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) []string {
	var list aggregationv1alpha1.CoderTemplateVersionList
	if c.decode(ctx, tmpl.Namespace, "codertemplates", tmpl.Name, "versions", map[string]string{"limit": "20"}, &list) != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// decode reads a subresource and decodes its JSON.
func (c *Cluster) decode(ctx context.Context, namespace, resource, name, subresource string, query map[string]string, into any) error {
	stream, err := c.Stream(ctx, namespace, resource, name, subresource, query)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
