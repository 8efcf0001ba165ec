package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// toolCall is a call that succeeds if its caller has all permissions of the tool.
type toolCall struct {
	arguments map[string]any
	// meanwhile is called for each progress notification of the call.
	meanwhile func()
}

// toolCalls returns, by the names of tools, calls that together need all permissions
// of the tool. They create new objects for each run.
func (s *mcpFixture) toolCalls() map[string]func(t *testing.T) []toolCall {
	all := map[string]func(t *testing.T) []toolCall{}
	for _, some := range []map[string]func(t *testing.T) []toolCall{s.readingCalls(), s.workspaceCalls(), s.templateCalls()} {
		for name, calls := range some {
			all[name] = calls
		}
	}
	all["change_control_plane"] = s.changeCalls
	return all
}

// calls returns the same calls each time.
func calls(arguments ...map[string]any) func(*testing.T) []toolCall {
	return func(*testing.T) []toolCall {
		var all []toolCall
		for _, a := range arguments {
			all = append(all, toolCall{arguments: a})
		}
		return all
	}
}

func (s *mcpFixture) readingCalls() map[string]func(t *testing.T) []toolCall {
	namespace := map[string]any{"namespace": s.ns}
	named := func(name string) map[string]any { return map[string]any{"namespace": s.ns, "name": name} }
	controlPlane := named("coder")
	return map[string]func(t *testing.T) []toolCall{
		"list_control_planes":                 calls(namespace),
		"get_control_plane_status":            calls(controlPlane),
		"list_control_plane_pods":             calls(controlPlane, map[string]any{"namespace": s.other, "name": "coder"}),
		"get_control_plane_deployment_status": calls(controlPlane),
		"get_service_status":                  calls(controlPlane),
		"diagnose_control_plane":              calls(controlPlane),
		"list_provisioners":                   calls(namespace),
		"list_workspace_proxies":              calls(namespace),
		"list_workspaces":                     calls(namespace, map[string]any{"namespace": s.ns, "template": "coder.hello"}),
		"get_workspace":                       calls(named("coder.admin.one")),
		"diagnose_workspace":                  calls(named("coder.admin.stuck"), map[string]any{"namespace": s.away, "name": "coder.admin.one"}),
		"get_build_logs": calls(
			map[string]any{"namespace": s.ns, "workspace": "coder.admin.stuck"},
			map[string]any{"namespace": s.ns, "template": "coder.broken"}),
		"list_templates": calls(namespace),
		"get_template":   calls(named("coder.hello")),
		"get_events":     calls(namespace),
		"get_pod_logs":   calls(named("coder-0")),
		"check_health":   calls(namespace),
	}
}

func (s *mcpFixture) workspaceCalls() map[string]func(t *testing.T) []toolCall {
	return map[string]func(t *testing.T) []toolCall{
		"set_workspace_running": func(t *testing.T) []toolCall {
			of := s.take(t)
			return []toolCall{
				{map[string]any{"namespace": s.ns, "name": of.runs(), "running": false, "confirm": of.runs(), "wait": true}, s.coder.FinishBuilds},
				{map[string]any{"namespace": s.ns, "name": of.stopped(), "running": true, "wait": true}, s.coder.FinishBuilds},
			}
		},
		"create_workspace": func(*testing.T) []toolCall {
			name := fmt.Sprintf("ws%d", s.next())
			s.coder.SetBuildResult(name, coderdtest.BuildResult{Hold: true})
			return []toolCall{{
				map[string]any{"namespace": s.ns, "name": name, "owner": "admin", "template": "coder.hello", "wait": true}, s.coder.FinishBuilds,
			}}
		},
		"update_workspace": func(t *testing.T) []toolCall {
			name := s.take(t).runs()
			return []toolCall{{
				map[string]any{"namespace": s.ns, "name": name, "versionID": "active", "confirm": name, "wait": true}, s.coder.FinishBuilds,
			}}
		},
		"delete_workspace": func(t *testing.T) []toolCall {
			name, orphan := s.take(t).runs(), s.take(t).runs()
			return []toolCall{
				{map[string]any{"namespace": s.ns, "name": name, "confirm": name, "wait": true}, s.coder.FinishBuilds},
				{map[string]any{"namespace": s.ns, "name": orphan, "confirm": orphan, "orphan": true}, nil},
			}
		},
	}
}

func (s *mcpFixture) templateCalls() map[string]func(t *testing.T) []toolCall {
	return map[string]func(t *testing.T) []toolCall{
		"set_template_running": calls(map[string]any{"namespace": s.ns, "name": "coder.hello", "running": true}),
		"push_template": func(t *testing.T) []toolCall {
			name, files := s.take(t).object(), map[string]any{"main.tf": "# pushed\n"}
			return []toolCall{
				{map[string]any{"namespace": s.ns, "name": name, "files": files, "confirm": name, "wait": true}, s.coder.FinishBuilds},
				{map[string]any{"namespace": s.ns, "name": fmt.Sprintf("coder.new%d", s.next()), "files": files, "create": true}, nil},
			}
		},
		"promote_template_version": func(t *testing.T) []toolCall {
			of := s.take(t)
			return []toolCall{{map[string]any{"namespace": s.ns, "name": of.object(), "versionID": of.earlier, "confirm": of.object()}, nil}}
		},
	}
}

// changeCalls returns calls that change the spec of a control plane. New pods start
// when the test releases them.
func (s *mcpFixture) changeCalls(t *testing.T) []toolCall {
	t.Helper()
	// Of two restarts within one second the second changes nothing.
	polltest.Eventually(t, "the second of the last restart is over", func(ctx context.Context) error {
		deployment := &appsv1.Deployment{}
		if err := environment.client.Get(ctx, client.ObjectKey{Namespace: s.other, Name: "coder"}, deployment); err != nil {
			return err
		}
		if last := deployment.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"]; last == time.Now().UTC().Format(time.RFC3339) {
			return errors.New("it is not")
		}
		return nil
	})
	s.standIn.hold("coder", true)
	roll := func() { s.standIn.hold("coder", false) }
	t.Cleanup(roll)
	change := func(more map[string]any) map[string]any {
		arguments := map[string]any{"namespace": s.other, "name": "coder", "confirm": "coder"}
		maps.Copy(arguments, more)
		return arguments
	}
	image := fmt.Sprintf("ghcr.io/coder/coder:v2.30.%d", s.next())
	return []toolCall{
		{change(map[string]any{"replicas": 1 + s.next()}), nil},
		{change(map[string]any{"image": image, "wait": true}), roll},
		{change(map[string]any{"restart": true, "wait": true}), roll},
	}
}
