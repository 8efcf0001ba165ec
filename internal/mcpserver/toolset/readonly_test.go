package toolset

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// reads are the methods of a client that change nothing. All others must be rejected,
// including methods of later versions of the client.
var reads = map[string]bool{
	"Get": true, "List": true, "Watch": true, "Scheme": true, "RESTMapper": true, "GroupVersionKindFor": true, "IsObjectNamespaced": true,
	"Status": true, "SubResource": true,
}

func TestAClientThatReadsRefusesAllElse(t *testing.T) {
	ctx := reflect.ValueOf(t.Context())
	kube := readsOnly(fakeKube(t, interceptor.Funcs{}))
	refused := 0
	for what, c := range map[string]any{"client": kube.WithWatch, "status": kube.Status(), "subresource": kube.SubResource("scale")} {
		methods := reflect.TypeFor[client.WithWatch]()
		if what != "client" {
			methods = reflect.TypeFor[client.SubResourceClient]()
		}
		for i := range methods.NumMethod() {
			method := methods.Method(i)
			if reads[method.Name] {
				continue
			}
			f := reflect.ValueOf(c).MethodByName(method.Name)
			arguments := []reflect.Value{ctx}
			for j := 1; j < f.Type().NumIn()-1; j++ {
				arguments = append(arguments, reflect.Zero(f.Type().In(j)))
			}
			answers := f.Call(arguments)
			if err, _ := answers[len(answers)-1].Interface().(error); !errors.Is(err, errReadsOnly) {
				t.Errorf("%s.%s answers %v, want that it only reads", what, method.Name, err)
			}
			refused++
		}
	}
	if refused != 6+4+4 {
		t.Errorf("%d methods were tried, want 14: has the client another one?", refused)
	}
}

func TestAToolThatReadsCannotWrite(t *testing.T) {
	for _, effect := range []Effect{Reads, Writes, Destroys} {
		t.Run(string(effect), func(t *testing.T) {
			wrote := false
			kube := fakeKube(t, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				wrote = true
				return nil
			}}, pod("x"))
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
