package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// secretSearch searches texts for secrets.
type secretSearch struct {
	ns    string
	known map[string]string // Descriptions of the secrets, by their text.
}

func newSecretSearch(ns string) *secretSearch {
	return &secretSearch{ns: ns, known: map[string]string{}}
}

// add adds a text to the search.
func (s *secretSearch) add(what, text string) { s.known[text] = what }

// collect adds the current content of the Secrets of the namespace.
func (s *secretSearch) collect(t *testing.T) {
	t.Helper()
	list := &corev1.SecretList{}
	if err := environment.client.List(t.Context(), list, client.InNamespace(s.ns)); err != nil {
		t.Fatal(err)
	}
	before := len(s.known)
	for _, secret := range list.Items {
		for key, value := range secret.Data {
			if key != "username" && key != "email" {
				s.add("Secret "+secret.Name+", key "+key, string(value))
			}
		}
	}
	// At least the operator's token, its password and that of the first admin, the
	// database, and the provisioner's key or the proxy's token.
	if len(s.known) < before+4 || len(s.known) < 8 {
		t.Fatalf("only these secrets were found: %v", slices.Sorted(maps.Values(s.known)))
	}
}

// search fails the test if a secret is in one of the texts, in an Event, or in any
// object of the namespace except Secrets.
func (s *secretSearch) search(t *testing.T, logs, metrics string) {
	t.Helper()
	places := s.objects(t)
	places["the log"], places["the metrics"] = logs, metrics
	if len(places) < 10 || !strings.Contains(metrics, "coder_k8s_reconcile_outcomes_total") || !strings.Contains(logs, s.ns) {
		t.Fatalf("the search has little to look at: %v", slices.Sorted(maps.Keys(places)))
	}
	for text, what := range s.known {
		for place, content := range places {
			if text != "" && strings.Contains(content, text) {
				t.Errorf("%s stands in %s", what, place)
			}
		}
	}
}

// objects returns all objects in the namespace except Secrets, as JSON.
func (s *secretSearch) objects(t *testing.T) map[string]string {
	t.Helper()
	finder, err := discovery.NewDiscoveryClientForConfig(environment.config)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := dynamic.NewForConfig(environment.config)
	if err != nil {
		t.Fatal(err)
	}
	// The group of an aggregated API whose server has ended is not searched.
	lists, err := finder.ServerPreferredNamespacedResources()
	if partly := new(discovery.ErrGroupDiscoveryFailed); err != nil && !errors.As(err, &partly) {
		t.Fatal(err)
	}
	places := map[string]string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if resource.Name == "secrets" || version.Group == "aggregation.coder.com" || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			found, err := reader.Resource(version.WithResource(resource.Name)).Namespace(s.ns).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range found.Items {
				content, err := found.Items[i].MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				places[resource.Kind+" "+found.Items[i].GetName()] = string(content)
			}
		}
	}
	return places
}

// metricsOf reads the metrics of a process as an authorized user, as soon as it
// serves them.
func metricsOf(t *testing.T, port string) string {
	t.Helper()
	token := serviceAccountToken(t, operatorNamespace, "prometheus", "")
	if err := environment.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "coder-k8s-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: "prometheus"}},
	}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	// The certificate is the process's own.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	reader := &http.Client{Transport: setHeaders(map[string]string{"Authorization": "Bearer " + token})(transport)}
	var content []byte
	polltest.Eventually(t, "the metrics can be read", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+port+"/metrics", nil)
		if err != nil {
			return err
		}
		response, err := reader.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		content, err = io.ReadAll(response.Body)
		return err
	})
	return string(content)
}
