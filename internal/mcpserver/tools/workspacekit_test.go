package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	devName      = "coder.ada.dev"
	dockerName   = "coder.docker"
	activeID     = "11111111-1111-4111-8111-111111111111"
	newID        = "22222222-2222-4222-8222-222222222222"
	templatePath = "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/codertemplates/" + dockerName
	devPath      = "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/" + devName
)

// devWorkspace returns a workspace in this phase, as the API serves it.
func devWorkspace(phase string) *aggregationv1alpha1.CoderWorkspace {
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: devName, UID: "dev", Generation: 1, Labels: maps.Clone(ofCoder)},
		Spec: aggregationv1alpha1.CoderWorkspaceSpec{
			Organization: "coder", TemplateName: "docker", TemplateVersionID: activeID, AutomaticUpdates: "never",
			Running: ptr.To(phase != "Stopped"), Dormant: ptr.To(false),
		},
		Status: aggregationv1alpha1.CoderWorkspaceStatus{
			ObservedGeneration: 1, OwnerName: "ada", OrganizationName: "coder", TemplateName: "docker",
			LatestBuild: &aggregationv1alpha1.WorkspaceBuild{Number: 3, Transition: "start", Status: strings.ToLower(phase), TemplateVersionName: "v1", TemplateVersionID: activeID},
		},
	}
	inPhase(phase, "")(ws)
	return ws
}

// inPhase returns a function that sets the phase of a workspace and the fields that depend
// on it.
func inPhase(phase, failure string) func(client.Object) {
	return func(obj client.Object) {
		ws := obj.(*aggregationv1alpha1.CoderWorkspace)
		ws.Status.Phase, ws.Status.LatestBuildError = phase, failure
		ready, stalled, message := metav1.ConditionFalse, metav1.ConditionFalse, "the build is in progress"
		switch phase {
		case "Running":
			ready, message = metav1.ConditionTrue, "the workspace is running"
		case "Stopped":
			ready, message = metav1.ConditionTrue, "the workspace is stopped"
		case "Failed":
			stalled, message = metav1.ConditionTrue, "the start build failed: "+failure
		}
		setCondition(&ws.Status.Conditions, aggregationv1alpha1.ConditionReady, ready, phase, message)
		setCondition(&ws.Status.Conditions, aggregationv1alpha1.ConditionStalled, stalled, phase, message)
	}
}

func setCondition(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// steps is a fake API. After an action, a watch observes these changes of the object, such
// as the phases of a build.
type steps struct {
	t *testing.T
	// started contains the requested actions.
	started []string
	// refuse is the error of actions.
	refuse error
	// after contains the changes of the object; nil deletes it.
	after []func(client.Object)
	// clock, if set, advances by a second with each change.
	clock *clocktesting.FakeClock
}

func (s *steps) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, action string, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
			if _, ok := body.(*aggregationv1alpha1.CoderWorkspaceAction); !ok {
				return fmt.Errorf("the body is a %T", body)
			}
			if s.refuse != nil {
				return s.refuse
			}
			if options := (&client.SubResourceCreateOptions{}).ApplyOptions(opts); len(options.DryRun) > 0 {
				return nil
			}
			s.started = append(s.started, action)
			ws := &aggregationv1alpha1.CoderWorkspace{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), ws); err != nil {
				return err
			}
			ws.Spec.Running = ptr.To(action == "start")
			status := ws.Status
			if err := c.Update(ctx, ws); err != nil {
				return err
			}
			ws.Status = status
			inPhase("Pending", "")(ws)
			return c.Status().Update(ctx, ws)
		},
		Watch: s.watch,
	}
}

// watch applies the changes when a watch begins.
func (s *steps) watch(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	var o client.ListOptions
	o.ApplyOptions(opts)
	watcher, err := c.Watch(ctx, list, opts...)
	if err != nil {
		return nil, err
	}
	var obj client.Object = &aggregationv1alpha1.CoderWorkspace{}
	if _, ok := list.(*aggregationv1alpha1.CoderTemplateList); ok {
		obj = &aggregationv1alpha1.CoderTemplate{}
	}
	name, _ := o.FieldSelector.RequiresExactMatch("metadata.name")
	for i, step := range s.after {
		if s.clock != nil {
			s.clock.Step(time.Second)
		}
		if err := take(ctx, c, client.ObjectKey{Namespace: o.Namespace, Name: name}, obj, step); err != nil {
			s.t.Errorf("step %d: %v", i, err)
		}
	}
	return watcher, nil
}

func take(ctx context.Context, c client.Client, key client.ObjectKey, obj client.Object, step func(client.Object)) error {
	if err := c.Get(ctx, key, obj); err != nil {
		return err
	}
	if step != nil {
		step(obj)
		return c.Status().Update(ctx, obj)
	}
	obj.SetFinalizers(nil)
	if obj.GetDeletionTimestamp() != nil {
		return c.Update(ctx, obj)
	}
	return c.Delete(ctx, obj)
}

// refuseWrites fails the test on every write that is not a dry run.
func refuseWrites(t *testing.T) interceptor.Funcs {
	t.Helper()
	fail := func(what string, dryRun []string) error {
		if len(dryRun) == 0 {
			t.Errorf("%s is not a dry run", what)
		}
		return nil
	}
	return interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.CreateOption) error {
			return fail("a create", (&client.CreateOptions{}).ApplyOptions(opts).DryRun)
		},
		Update: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.UpdateOption) error {
			return fail("an update", (&client.UpdateOptions{}).ApplyOptions(opts).DryRun)
		},
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			return fail("a delete", (&client.DeleteOptions{}).ApplyOptions(opts).DryRun)
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return fail("an action", nil)
		},
	}
}

// failingUpdates returns these errors for the first updates. Before each, other changes the
// object.
func failingUpdates(other func(client.Object), failures ...error) interceptor.Funcs {
	return interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
		if len(failures) == 0 {
			return c.Update(ctx, obj, opts...)
		}
		err := failures[0]
		failures = failures[1:]
		if other == nil {
			return err
		}
		seen := obj.DeepCopyObject().(client.Object)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), seen); err != nil {
			return err
		}
		other(seen)
		if err := c.Update(ctx, seen); err != nil {
			return err
		}
		return err
	}}
}

func conflict(plural string) error {
	return apierrors.NewConflict(aggregationv1alpha1.Resource(plural), "x", errors.New("somebody else has changed it"))
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(aggregationv1alpha1.Resource(resource), "x", errors.New(`User "alice" cannot do it`))
}

// served returns the current object in the API.
func served[T client.Object](t *testing.T, kube *callers.Kube, name string, into T) T {
	t.Helper()
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "coder", Name: name}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// toolSession is a client of the tools for workspaces and templates.
type toolSession struct {
	*mcp.ClientSession
	told chan string
}

// connectTools connects a client of user alice without elicitation.
func connectTools(t *testing.T, env toolset.Env) *toolSession {
	t.Helper()
	s := &toolSession{told: make(chan string, 100)}
	s.ClientSession = connectTo(t, env, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
			s.told <- n.Params.Message
		},
	}, addWorkspaces, addTemplates)
	return s
}

// connectTo connects a client of user alice, who is in group devs, to some tools.
func connectTo(t *testing.T, env toolset.Env, options *mcp.ClientOptions, add ...func(*toolset.Set)) *mcp.ClientSession {
	t.Helper()
	set := &toolset.Set{}
	for _, add := range add {
		add(set)
	}
	server := mcptest.NewServer(&user.DefaultInfo{Name: "alice", Groups: []string{"devs"}}, nil)
	set.Register(server, env)
	return mcptest.Connect(t, server, options, nil)
}

// say calls a tool and returns the text of its answer.
func (s *toolSession) say(t *testing.T, tool string, arguments map[string]any) (answer string, isError bool) {
	t.Helper()
	return tell(t, s.ClientSession, tool, arguments)
}

// wantProgress checks the progress messages, in this order. They may arrive after the
// answer.
func (s *toolSession) wantProgress(t *testing.T, want ...string) {
	t.Helper()
	for _, message := range want {
		select {
		case got := <-s.told:
			if got != message {
				t.Errorf("told is %q, want %q", got, message)
			}
		case <-polltest.Context(t).Done():
			t.Fatalf("%q is not told", message)
		}
	}
}

// wantError checks that the error contains the text.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the error is %v, want %q in it", err, text)
	}
}

// realKube returns a real client for an API at this address. Unlike the fake client, it
// decodes responses into the given objects.
func realKube(t *testing.T, url string) *callers.Kube {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace"), meta.RESTScopeNamespace)
	mapper.Add(aggregationv1alpha1.GroupVersion.WithKind("CoderTemplate"), meta.RESTScopeNamespace)
	c, err := client.NewWithWatch(&rest.Config{Host: url}, client.Options{Scheme: knownKinds.Scheme(t), Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return &callers.Kube{WithWatch: c}
}

// answering returns an API that sends these responses one after the other.
func answering(t *testing.T, answers ...string) *callers.Kube {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if len(answers) == 0 {
			t.Errorf("there is no answer to %s %s", r.Method, r.URL)
			return
		}
		if strings.Contains(answers[0], `"code":409`) {
			w.WriteHeader(http.StatusConflict)
		}
		if _, err := w.Write([]byte(answers[0])); err != nil {
			t.Error(err)
		}
		answers = answers[1:]
	}))
	t.Cleanup(api.Close)
	return realKube(t, api.URL)
}

const conflictAnswer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`
