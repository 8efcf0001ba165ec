package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/generated/openapi"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// serverName is the name in the OpenAPI documents and in the generic server's logs.
const serverName = "coder-k8s-apiserver"

// kube provides access to the cluster that the server extends.
type kube struct {
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	informers informers.SharedInformerFactory
	// delegate configures authentication and authorization. It returns the CAs that must be read before
	// clients can be authenticated. Tests replace it.
	delegate func(*server.Config) ([]authority, error)
	// workspaces, templates and users are the records of these kinds. sources are the files of
	// templates.
	workspaces, templates, users, sources records.Cluster
}

// informerFactory is client-go's factory without informers by resource. The library calls ForResource for the parameters of an
// admission policy. After the error, it uses an informer of that policy alone, as it does for custom resources. An informer of
// the factory would be one of those that the server waits for at its start, although the operator may not be permitted to read
// the parameters.
type informerFactory struct {
	informers.SharedInformerFactory
}

// ForResource returns an error.
func (informerFactory) ForResource(schema.GroupVersionResource) (informers.GenericInformer, error) {
	return nil, errors.New("there are no informers by resource")
}

// assemble builds the configuration of the generic server. Each part needs the parts before it, so
// the order must not change.
func assemble(
	opts *Options, typer *runtime.Scheme, config *server.RecommendedConfig, k kube,
	certificate *certificates.Manager, listener net.Listener,
) ([]authority, error) {
	definitions := openapi.GetOpenAPIDefinitions
	namer := apiopenapi.NewDefinitionNamer(typer)
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = serverName
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = serverName
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	// These streams live as long as the build, session or connection behind them.
	config.LongRunningFunc = filters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	config.EnableProfiling = false
	config.SharedInformerFactory = k.informers

	serving := *opts.SecureServing
	serving.Listener = listener
	if certificate != nil {
		serving.ServerCert.GeneratedCert = certificate.Provider()
	}
	if err := serving.ApplyTo(&config.SecureServing); err != nil {
		return nil, fmt.Errorf("preparing to serve the aggregated API at %s port %d: %w", serving.BindAddress, serving.BindPort, err)
	}
	// The library requires a client of this server, with all permissions and a new RSA key. Nothing uses it.
	config.LoopbackClientConfig = &restclient.Config{}
	authorities, err := k.delegate(&config.Config)
	if err != nil {
		return nil, err
	}
	if err := opts.Audit.ApplyTo(&config.Config); err != nil {
		return nil, fmt.Errorf("setting up the audit log: %w", err)
	}
	if config.AuditPolicyRuleEvaluator != nil {
		config.AuditPolicyRuleEvaluator = withoutTokens{config.AuditPolicyRuleEvaluator}
	}
	if opts.PriorityAndFairness {
		config.FlowControl = utilflowcontrol.New(k.informers, k.client.FlowcontrolV1(),
			config.MaxRequestsInFlight+config.MaxMutatingRequestsInFlight)
	}
	if err := opts.Admission.ApplyTo(&config.Config, k.informers, k.client, k.dynamic,
		utilfeature.DefaultFeatureGate, config.EffectiveVersion, quotaInitializer{}); err != nil {
		return nil, fmt.Errorf("setting up admission: %w", err)
	}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, c *server.Config) http.Handler {
		return withoutProtobufObjects(build(withRequestID(api), c))
	}
	return authorities, nil
}

// delegateTo returns a function that delegates authentication and authorization to a cluster.
func delegateTo(client kubernetes.Interface) func(*server.Config) ([]authority, error) {
	return func(config *server.Config) ([]authority, error) {
		authorities, err := delegateAuthentication(client, config)
		if err != nil {
			return nil, fmt.Errorf("delegating authentication: %w", err)
		}
		decide, err := delegateAuthorization(client)
		if err != nil {
			return nil, fmt.Errorf("delegating authorization: %w", err)
		}
		config.Authorization.Authorizer = decide
		return authorities, nil
	}
}

// quotaInitializer configures the admission plugin ResourceQuota. Without own evaluators, the
// plugin counts objects: count/<resource>.aggregation.coder.com.
type quotaInitializer struct{}

// Initialize implements admission.PluginInitializer.
func (quotaInitializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(generic.NewConfiguration(nil, nil))
	}
}
