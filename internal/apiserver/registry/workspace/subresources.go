package workspace

import (
	"net/url"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// subresource is the common part of the subresources of workspaces.
type subresource struct {
	kind       *Kind
	store      registry.Store
	authorizer authorizer.UnconditionalAuthorizer
}

// Subresources returns the storages of the subresources of coderworkspaces by name.
func (k *Kind) Subresources(store registry.Store, authorizer authorizer.UnconditionalAuthorizer) map[string]rest.Storage {
	r := &subresource{kind: k, store: store, authorizer: authorizer}
	return map[string]rest.Storage{
		"exec":        &execREST{accessREST{r}},
		"portforward": &portForwardREST{accessREST{r}},
		"scale":       &scaleREST{r},
		"start":       &actionREST{r, actionStart},
		"stop":        &actionREST{r, actionStop},
		"restart":     &actionREST{r, actionRestart},
		"log":         registry.NewLogGetter(k.New, r.openLog),

		TokenSubresource: &tokenREST{r},
	}
}

// AddToScheme registers what requests for workspaces use besides the types: field labels of
// selectors, the queries of the subresources, and the Scale.
func AddToScheme(s *runtime.Scheme) error {
	if err := info.AddToScheme(s); err != nil {
		return err
	}
	scale := autoscalingv1.SchemeGroupVersion
	s.AddKnownTypes(scale, &autoscalingv1.Scale{})
	s.AddKnownTypes(schema.GroupVersion{Group: scale.Group, Version: runtime.APIVersionInternal}, &autoscalingv1.Scale{})
	metav1.AddToGroupVersion(s, scale)
	if err := registry.AddOptions(s, readExecOptions); err != nil {
		return err
	}
	if err := registry.AddOptions(s, func(query url.Values, into *aggregationv1alpha1.CoderWorkspacePortForwardOptions) error {
		return registry.ReadQuery(query, registry.TextParameter("agent", &into.Agent))
	}); err != nil {
		return err
	}
	return registry.AddOptions(s, readLogOptions)
}

// readLogOptions decodes the query of the subresource log.
func readLogOptions(query url.Values, options *aggregationv1alpha1.CoderWorkspaceLogOptions) error {
	return registry.ReadQuery(query,
		registry.TextParameter("source", &options.Source),
		registry.TextParameter("agent", &options.Agent),
		registry.TextParameter("script", &options.Script),
		registry.NumberParameter("tailLines", &options.TailLines),
		registry.BoolParameter("follow", &options.Follow),
		registry.NumberParameter("build", &options.Build),
		registry.NumberParameter("after", &options.After))
}

// readExecOptions decodes the query of the subresource exec.
func readExecOptions(query url.Values, options *aggregationv1alpha1.CoderWorkspaceExecOptions) error {
	options.Command = query["command"]
	return registry.ReadQuery(query,
		registry.TextParameter("agent", &options.Agent),
		registry.BoolParameter("stdin", &options.Stdin),
		registry.BoolParameter("stdout", &options.Stdout),
		registry.BoolParameter("stderr", &options.Stderr),
		registry.BoolParameter("tty", &options.TTY),
		registry.BoolParameter("ssh", &options.SSH))
}
