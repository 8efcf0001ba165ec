package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
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
	config, err := cli.Cluster(s.Flags, "kubectl-"+version.UserAgent())
	if err != nil {
		return nil, err
	}
	namespace, _, err := s.Flags.ToRawKubeConfigLoader().Namespace()
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
