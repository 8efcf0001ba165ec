package toolset

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

func TestAToolThatReadsCannotWrite(t *testing.T) {
	for _, effect := range []Effect{Reads, Writes, Destroys} {
		t.Run(string(effect), func(t *testing.T) {
			wrote := false
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				wrote = wrote || r.Method != http.MethodGet
				found := pod("x")
				found.APIVersion, found.Kind = "v1", "Pod"
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(found)
			}))
			defer api.Close()
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			kube, err := callers.New(&rest.Config{Host: api.URL}, clientgoscheme.Scheme, mapper)
			if err != nil {
				t.Fatal(err)
			}
			s := &Set{}
			Add(s, Definition{Name: "ask", Effect: effect}, func(ctx context.Context, call *Call, _ nothing) (nothing, error) {
				seen := pod("x")
				if err := call.Kube.Get(ctx, client.ObjectKeyFromObject(seen), seen); err != nil {
					return nothing{}, err
				}
				if err := call.Kube.Delete(ctx, seen, client.DryRunAll); err != nil {
					return nothing{}, &CallError{Verb: "delete", Resource: "pods", Namespace: "coder", Name: "x", Err: err}
				}
				return nothing{}, nil
			})
			served := serve(s, Env{Kube: kube})
			text, isError := say(t, served.connect(t, modern, nil), &mcp.CallToolParams{Name: "ask"})
			if mayWrite := effect != Reads; wrote != mayWrite || isError == mayWrite {
				t.Errorf("wrote %t, error %t: %s", wrote, isError, text)
			}
			if effect == Reads && (!strings.Contains(text, "this tool is read-only; nothing was done") || served.outcome.String() != OutcomeDenied) {
				t.Errorf("the answer is %q, outcome %s", text, served.outcome)
			}
		})
	}
}
