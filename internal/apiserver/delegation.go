package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
)

const (
	// decisionTTL is how long a review by kube-apiserver is cached.
	decisionTTL = 10 * time.Second
	// reviewTimeout limits the duration of a review.
	reviewTimeout = 10 * time.Second

	// authenticationConfigMap is the ConfigMap in which kube-apiserver publishes the CA of its clients,
	// the CA of clients that may authenticate requests for other users, and the names of the request
	// headers.
	authenticationConfigMap = "extension-apiserver-authentication"
	clientCAKey             = "client-ca-file"
	requestHeaderCAKey      = "requestheader-client-ca-file"
)

// authority is a CA that signs the certificates of clients.
type authority struct {
	dynamiccertificates.CAContentProvider
	// key is the key of the CA in the ConfigMap.
	key string
}

// delegateAuthentication configures authentication by kube-apiserver: with its client certificate
// and request headers, or by a TokenReview. It does what options.DelegatingAuthenticationOptions
// does, but uses the existing client in place of files, and rejects anonymous callers. It returns
// the published CAs, which their controllers read after the start.
func delegateAuthentication(client kubernetes.Interface, config *server.Config) ([]authority, error) {
	clientCA, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"client-ca", metav1.NamespaceSystem, authenticationConfigMap, clientCAKey, client)
	if err != nil {
		return nil, fmt.Errorf("preparing the client CA: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), reviewTimeout)
	defer cancel()
	published, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authenticationConfigMap, metav1.GetOptions{})
	var headers *authenticatorfactory.RequestHeaderConfig
	if err == nil {
		headers, err = requestHeaders(ctx, client)
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s, with the authentication settings of kube-apiserver "+
			"(it needs a RoleBinding to extension-apiserver-authentication-reader): %w", metav1.NamespaceSystem, authenticationConfigMap, err)
	}
	delegation := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                          &apiserver.AnonymousAuthConfig{Enabled: false},
		TokenAccessReviewClient:            client.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                options.DefaultAuthWebhookRetryBackoff(),
		CacheTTL:                           decisionTTL,
		ClientCertificateCAContentProvider: clientCA,
		RequestHeaderConfig:                headers,
	}
	authenticator, definitions, err := delegation.New()
	if err != nil {
		return nil, fmt.Errorf("building the authenticator: %w", err)
	}
	info := &config.Authentication
	for _, ca := range []dynamiccertificates.CAContentProvider{clientCA, headers.CAContentProvider} {
		if err := info.ApplyClientCert(ca, config.SecureServing); err != nil {
			return nil, fmt.Errorf("requesting client certificates: %w", err)
		}
	}
	info.RequestHeaderConfig, info.Authenticator = headers, authenticator
	config.OpenAPIConfig.SecurityDefinitions = definitions
	authorities := []authority{{headers.CAContentProvider, requestHeaderCAKey}}
	// A kube-apiserver that accepts no client certificates publishes no CA for them.
	if published.Data[clientCAKey] != "" {
		authorities = append(authorities, authority{clientCA, clientCAKey})
	}
	return authorities, nil
}

// requestHeaders watches the published CA and header names, so that a change needs no restart.
func requestHeaders(ctx context.Context, client kubernetes.Interface) (*authenticatorfactory.RequestHeaderConfig, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"request-header-ca", metav1.NamespaceSystem, authenticationConfigMap, requestHeaderCAKey, client)
	if err != nil {
		return nil, err
	}
	names := headerrequest.NewRequestHeaderAuthRequestController(authenticationConfigMap, metav1.NamespaceSystem, client,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	both := &options.DynamicRequestHeaderController{ConfigMapCAController: ca, RequestHeaderAuthRequestController: names}
	if err := both.RunOnce(ctx); err != nil {
		return nil, err
	}
	if len(both.UsernameHeaders()) == 0 {
		return nil, errors.New("it names no header for the user: kube-apiserver needs --requestheader-username-headers to aggregate APIs")
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   both,
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(both.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(both.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(both.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(both.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(both.AllowedClientNames),
	}, nil
}

// delegateAuthorization returns an authorizer that sends a SubjectAccessReview to kube-apiserver.
// Members of system:masters and health checks are allowed without a review.
func delegateAuthorization(client kubernetes.Interface) (authorizer.Authorizer, error) {
	health, err := path.NewAuthorizer([]string{"/healthz", "/readyz", "/livez"})
	if err != nil {
		return nil, err
	}
	review, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             decisionTTL,
		DenyCacheTTL:              decisionTTL,
		WebhookRetryBackoff:       options.DefaultAuthWebhookRetryBackoff(),
	}.New()
	if err != nil {
		return nil, err
	}
	return union.New(
		union.NamedAuthorizer{AuthorizerName: "administrators", Authorizer: authorizerfactory.NewPrivilegedGroups("system:masters")},
		union.NamedAuthorizer{AuthorizerName: "health-checks", Authorizer: health},
		union.NamedAuthorizer{AuthorizerName: "kube-apiserver", Authorizer: review},
	)
}
