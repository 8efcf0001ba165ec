//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// api reads objects like "kubectl get". Polling with kubectl would start a process five
// times a second, which needs more CPU time than everything else on a cluster with two
// cores.
type api struct {
	host   string
	client *http.Client
	core   clientrest.Interface
	kinds  meta.ResettableRESTMapper
	// names also maps the short names of kinds.
	names meta.RESTMapper
}

// theAPI is the API of the cluster of $KUBECONFIG. It discovers the kinds on first use,
// and again for an unknown kind.
var theAPI = sync.OnceValues(func() (*api, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	client, err := clientrest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	set, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	discovered := memory.NewMemCacheClient(set.Discovery())
	kinds := restmapper.NewDeferredDiscoveryRESTMapper(discovered)
	return &api{host: config.Host, client: client, core: set.CoreV1().RESTClient(), kinds: kinds, names: restmapper.NewShortcutExpander(kinds, discovered, nil)}, nil
})

// question identifies the requested objects: a kind in a namespace, and a name or a
// selector. Without both it means all objects of the kind.
type question struct{ namespace, kind, name, selector string }

// questionOf parses arguments of "kubectl get". It returns false if an argument is
// unknown.
func questionOf(args []string) (q question, ok bool) {
	q.namespace = "default"
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "-n" && i+1 < len(args):
			i++
			q.namespace = args[i]
		case arg == "-l" && i+1 < len(args):
			i++
			q.selector = args[i]
		case strings.HasPrefix(arg, "-"), strings.Contains(arg, ","):
			return q, false
		case q.kind == "":
			q.kind, q.name, _ = strings.Cut(arg, "/")
		case q.name == "" && !strings.Contains(arg, "/"):
			q.name = arg
		default:
			return q, false
		}
	}
	return q, q.kind != "" && !strings.Contains(q.kind, ".") && (q.name == "" || q.selector == "")
}

// path returns the URL path of a question.
func (a *api) path(q question) (string, error) {
	asked := schema.GroupVersionResource{Resource: q.kind}
	resource, err := a.names.ResourceFor(asked)
	if meta.IsNoMatchError(err) {
		a.kinds.Reset()
		resource, err = a.names.ResourceFor(asked)
	}
	if err != nil {
		return "", err
	}
	kind, err := a.kinds.KindFor(resource)
	if err != nil {
		return "", err
	}
	mapping, err := a.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return "", err
	}
	path := "/apis/" + resource.Group + "/" + resource.Version
	if resource.Group == "" {
		path = "/api/" + resource.Version
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		path += "/namespaces/" + q.namespace
	}
	path += "/" + resource.Resource
	if q.name != "" {
		return path + "/" + q.name, nil
	}
	return path + "?labelSelector=" + url.QueryEscape(q.selector), nil
}

// read decodes the response to a question into a value, and returns a Status as an
// apierrors.StatusError. A kube-apiserver that has just started also answers 404 without a
// Status, which does not mean that the object does not exist.
func (a *api) read(ctx context.Context, q question, into any) error {
	path, err := a.path(q)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.host+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var status apierrors.StatusError
		if err := json.Unmarshal(body, &status.ErrStatus); err != nil {
			return fmt.Errorf("%s: %s: %.300s", path, response.Status, body)
		}
		return fmt.Errorf("%s: %w", path, &status)
	}
	return json.Unmarshal(body, into)
}

// get reads an object as generic JSON. It returns nil if the object does not exist. After
// any other error it reads again, until the time limit.
func get(t *testing.T, args ...string) (object map[string]any) {
	t.Helper()
	q, ok := questionOf(args)
	if !ok || q.name == "" {
		return getWithKubectl(t, args...)
	}
	a, err := theAPI()
	if err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "get "+strings.Join(args, " "), func(ctx context.Context) error {
		object = nil
		if err := a.read(ctx, q, &object); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	return object
}

// list reads objects as generic JSON.
func list(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	all, err := tryList(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tryList is list for polling: it returns the error. It asks again, at most ten times, if the Status of the answer says when to do so,
// as kubectl does if a header says it.
func tryList(ctx context.Context, args ...string) ([]map[string]any, error) {
	q, ok := questionOf(args)
	if !ok || q.name != "" {
		return nil, fmt.Errorf("these arguments do not ask for a list: %q", args)
	}
	a, err := theAPI()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		var all struct{ Items []map[string]any }
		err := a.read(ctx, q, &all)
		seconds, again := apierrors.SuggestsClientDelay(err)
		if !again || attempt == 10 {
			return all.Items, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
}

// contains reports whether a list contains an object with a name.
func contains(list []map[string]any, name string) bool {
	return slices.ContainsFunc(list, func(object map[string]any) bool { return field(object, "metadata", "name") == name })
}
