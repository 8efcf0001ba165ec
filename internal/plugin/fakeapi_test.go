package plugin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// fields are those of an object in JSON.
type fields = map[string]any

// fakeAPI responds like kube-apiserver, with the objects of the test.
type fakeAPI struct {
	*httptest.Server
	mu sync.Mutex
	// objects contains the objects by the path of their collection and by name.
	objects map[string]map[string]*unstructured.Unstructured
	// answers are handlers that replace the response for "VERB path".
	answers map[string]http.HandlerFunc
	// writes are the requests other than reads: "VERB path?query".
	writes []string
}

func newFakeAPI(t *testing.T, manifests ...string) *fakeAPI {
	t.Helper()
	f := &fakeAPI{objects: map[string]map[string]*unstructured.Unstructured{}, answers: map[string]http.HandlerFunc{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	for _, group := range []string{
		"/apis/coder.com/v1alpha1 codercontrolplanes coderprovisioners coderworkspaceproxies coderbackups coderbackupschedules",
		"/apis/aggregation.coder.com/v1alpha1 coderworkspaces codertemplates codertemplateversions",
		"/api/v1 pods persistentvolumeclaims services serviceaccounts secrets namespaces", "/apis/apps/v1 deployments replicasets",
		"/apis/rbac.authorization.k8s.io/v1 roles rolebindings", "/apis/policy/v1 poddisruptionbudgets",
		"/apis/networking.k8s.io/v1 ingresses networkpolicies",
	} {
		fields := strings.Fields(group)
		for _, resource := range fields[1:] {
			f.objects[fields[0]+"/"+resource] = map[string]*unstructured.Unstructured{}
		}
	}
	for _, manifest := range manifests {
		f.apply(t, manifest)
	}
	return f
}

// apply adds the objects of a YAML stream.
func (f *fakeAPI) apply(t *testing.T, manifest string) {
	t.Helper()
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		f.put(object)
	}
}

func (f *fakeAPI) put(object *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if object.GetUID() == "" {
		_ = unstructured.SetNestedField(object.Object, object.GetKind()+"-"+object.GetName(), "metadata", "uid")
	}
	prefix := "/apis/"
	if !strings.Contains(object.GetAPIVersion(), "/") {
		prefix = "/api/"
	}
	plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	collection := prefix + object.GetAPIVersion() + "/" + plural.Resource
	f.objects[collection][object.GetNamespace()+"/"+object.GetName()] = object
}

// change edits an existing object.
func (f *fakeAPI) change(collection, name string, edit func(o fields)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(f.objects[collection][name].Object)
}

// setStatus sets fields of the status of an object in namespace coder.
func (f *fakeAPI) setStatus(collection, name string, status fields) {
	f.change(collection, "coder/"+name, func(o fields) { maps.Copy(o["status"].(fields), status) })
}

// answer sets another response for requests to a path.
func (f *fakeAPI) answer(verbAndPath string, handler http.HandlerFunc) {
	f.answers[verbAndPath] = handler
}

// refuse responds with a Status, as kube-apiserver does.
func refuse(code int, reason metav1.StatusReason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		respond(w, code, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		})
	}
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, body)
	}
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		f.mu.Lock()
		f.writes = append(f.writes, r.Method+" "+r.URL.RequestURI())
		f.mu.Unlock()
	}
	if handler := f.answers[r.Method+" "+r.URL.Path]; handler != nil {
		handler(w, r)
		return
	}
	collection, namespace, name := parsePath(r.URL.Path)
	f.mu.Lock()
	defer f.mu.Unlock()
	objects, known := f.objects[collection]
	switch {
	case !known:
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")(w, r)
	case name == "" && r.Method == http.MethodGet:
		respond(w, http.StatusOK, list(r, objects, namespace))
	case r.Method == http.MethodGet:
		if object := objects[namespace+"/"+name]; object != nil {
			respond(w, http.StatusOK, object.Object)
			return
		}
		resource := collection[strings.LastIndexByte(collection, '/')+1:]
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", resource, name))(w, r)
	default:
		object := &unstructured.Unstructured{}
		// This decoder keeps integers as integers.
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = object.UnmarshalJSON(body)
		}
		if err != nil {
			refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())(w, r)
			return
		}
		if !r.URL.Query().Has("dryRun") {
			object.SetGeneration(object.GetGeneration() + 1)
			objects[namespace+"/"+cmp.Or(name, object.GetName())] = object
		}
		respond(w, http.StatusOK, object.Object)
	}
}

// parsePath parses /apis/GROUP/VERSION[/namespaces/NS]/RESOURCE[/NAME].
func parsePath(path string) (collection, namespace, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	root := 2
	if parts[0] == "apis" {
		root = 3
	}
	rest := parts[min(root, len(parts)):]
	if len(rest) >= 3 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	if len(rest) > 1 {
		name = strings.Join(rest[1:], "/")
	}
	if len(rest) > 0 {
		collection = "/" + strings.Join(parts[:root], "/") + "/" + rest[0]
	}
	return collection, namespace, name
}

func list(r *http.Request, objects map[string]*unstructured.Unstructured, namespace string) any {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	items := []map[string]any{}
	for _, object := range objects {
		if (namespace == "" || object.GetNamespace() == namespace) && selector.Matches(labels.Set(object.GetLabels())) {
			items = append(items, object.Object)
		}
	}
	slices.SortFunc(items, func(a, b map[string]any) int {
		return strings.Compare(fmt.Sprint(a["metadata"]), fmt.Sprint(b["metadata"]))
	})
	answer := map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": items}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		answer["kind"], answer["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
		for i, item := range items {
			items[i] = map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
		}
	} else if len(items) > 0 {
		answer["kind"], answer["apiVersion"] = fmt.Sprint(items[0]["kind"])+"List", items[0]["apiVersion"]
	}
	return answer
}
