package supportbundle

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// kubeAPI is a fake API server for read requests: lists of objects, logs and proxy
// responses.
type kubeAPI struct {
	*httptest.Server
	mu sync.Mutex
	// lists contains the items by path of the list.
	lists map[string][]map[string]any
	// texts contains other responses by path. The path of a previous container's log has
	// the suffix "?previous".
	texts map[string]string
	// failures contains error responses by path.
	failures map[string]metav1.Status
	// hang contains paths that do not respond before the client's timeout.
	hang map[string]bool
	// writes contains the requests that would change something.
	writes []string
}

func newKubeAPI(t *testing.T) *kubeAPI {
	t.Helper()
	k := &kubeAPI{
		lists: map[string][]map[string]any{}, failures: map[string]metav1.Status{}, hang: map[string]bool{},
		texts: map[string]string{
			"/version": `{"major":"1","minor":"37","gitVersion":"v1.37.0"}`,
			"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
			"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"coder.com","versions":[{"groupVersion":"coder.com/v1alpha1","version":"v1alpha1"}]}]}`,
		},
	}
	k.Server = httptest.NewTLSServer(k)
	t.Cleanup(k.Close)
	return k
}

// ServeHTTP implements http.Handler.
func (k *kubeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path := r.URL.Path
	if r.URL.Query().Get("previous") == "true" {
		path += "?previous"
	}
	if r.Method != http.MethodGet {
		k.writes = append(k.writes, r.Method+" "+path)
	}
	status, failed := k.failures[path]
	items, listed := k.lists[path]
	switch text, known := k.texts[path]; {
	case k.hang[path]:
		k.mu.Unlock()
		<-r.Context().Done()
		k.mu.Lock()
	case failed:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
	case known:
		if strings.HasPrefix(text, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = w.Write([]byte(text))
	default:
		w.Header().Set("Content-Type", "application/json")
		kind, version := "List", "v1"
		if listed && len(items) > 0 {
			kind, version = items[0]["kind"].(string)+"List", items[0]["apiVersion"].(string)
		}
		if items == nil {
			items = []map[string]any{}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": items})
	}
}

// forbid makes listing a resource fail.
func (k *kubeAPI) forbid(path, message string) {
	k.failures[path] = metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: message,
	}
}

// plurals are the irregular plurals of the kinds in the tests.
var plurals = map[string]string{"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}

// put adds objects from YAML documents. They are listed in their namespace and in all
// namespaces.
func (k *kubeAPI) put(t *testing.T, documents string) {
	t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		group, err := schema.ParseGroupVersion(object["apiVersion"].(string))
		if err != nil {
			t.Fatal(err)
		}
		kind := object["kind"].(string)
		plural := plurals[kind]
		if plural == "" {
			plural = strings.ToLower(kind) + "s"
		}
		prefix := "/apis/" + group.String() + "/"
		if group.Group == "" {
			prefix = "/api/" + group.Version + "/"
		}
		metadata := object["metadata"].(map[string]any)
		if metadata["uid"] == nil {
			metadata["uid"] = kind + "-" + metadata["name"].(string)
		}
		k.lists[prefix+plural] = append(k.lists[prefix+plural], object)
		if namespace, ok := metadata["namespace"].(string); ok {
			path := prefix + "namespaces/" + namespace + "/" + plural
			k.lists[path] = append(k.lists[path], object)
		}
	}
}

// kubeconfig returns a kubeconfig file for the server.
func (k *kubeAPI) kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["fake"] = &clientcmdapi.Cluster{Server: k.URL, InsecureSkipTLSVerify: true}
	config.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "caller-token-9f8e7d6c"}
	config.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake", AuthInfo: "me"}
	config.CurrentContext = "fake"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	// The environment of the machine must not have an effect.
	if err := os.Unsetenv("KUBECONFIG"); err != nil {
		t.Fatal(err)
	}
	return path
}

func unavailable(message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonServiceUnavailable, Code: http.StatusServiceUnavailable, Message: message,
	}
}

func operatorPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "coder-k8s-1", Namespace: "coder-system"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "coder-k8s", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8443}},
		}}},
	}
}
