package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestKilledWhileCreating: the program is killed when Coder has created a workspace
// with running: false, possibly before the program received the response. The next
// process stops the workspace once, and it keeps its label.
func TestKilledWhileCreating(t *testing.T) {
	p, ns, coder, _ := coderServed(t, coderdtest.WithManualBuilds())
	polltest.Eventually(t, "the API knows the template", func(ctx context.Context) error {
		return environment.client.Create(ctx, quiet(ns, "coder.admin.dry"), client.DryRunAll)
	})
	answered := func() {}
	for i, lost := range []bool{true, false} {
		name := fmt.Sprintf("quiet-%d", i)
		if lost {
			answered = coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/users/", Processed: true, DropConnection: true})
		}
		asked := make(chan error, 1)
		go func() { asked <- environment.client.Create(context.Background(), quiet(ns, "coder.admin."+name)) }()
		polltest.Eventually(t, "Coder has the workspace", func(context.Context) error {
			if coder.ActiveBuilds() == 0 {
				return errors.New("it has not")
			}
			return nil
		})
		p.kill()
		answered()
		t.Logf("%s: the client was told %v", name, <-asked)
		coder.FinishBuilds()
		p.start(t)
		p.ready(t)
		ws := &aggregationv1alpha1.CoderWorkspace{}
		polltest.Eventually(t, "workspace "+name+" is stopped", func(ctx context.Context) error {
			coder.FinishBuilds()
			if err := environment.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "coder.admin." + name}, ws); err != nil {
				return err
			}
			if ws.Status.Phase != "Stopped" || ws.Status.ObservedGeneration != ws.Generation || ptr.Deref(ws.Spec.Running, true) {
				return fmt.Errorf("it is %s, generation %d of %d", ws.Status.Phase, ws.Status.ObservedGeneration, ws.Generation)
			}
			return nil
		})
		if ws.Labels["kept"] != "yes" {
			t.Errorf("%s has the labels %v", name, ws.Labels)
		}
		builds := coder.Transitions(uuid.MustParse(ws.Status.ID))
		if diff := cmp.Diff([]string{"start", "stop"}, builds); diff != "" {
			t.Errorf("%s was built otherwise than once each (-want +got):\n%s", name, diff)
		}
	}
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	if err := environment.client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, ws := range list.Items {
		all = append(all, ws.Name)
	}
	slices.Sort(all)
	if diff := cmp.Diff([]string{"coder.admin.quiet-0", "coder.admin.quiet-1"}, all); diff != "" {
		t.Error(diff)
	}
}

// quiet returns a workspace with running: false.
func quiet(ns, name string) *aggregationv1alpha1.CoderWorkspace {
	ws := workspaceOf(ns, name, "hello")
	ws.Spec.Running = ptr.To(false)
	ws.Labels = map[string]string{"kept": "yes"}
	return ws
}
