package manifests

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func deployments(t *testing.T, objects rendering) []*appsv1.Deployment {
	t.Helper()
	found := ofKind[appsv1.Deployment](t, objects, "Deployment")
	if len(found) == 0 {
		t.Fatal("there is no Deployment")
	}
	return found
}

// selected returns the names of the Deployments whose pods a selector selects.
func selected(t *testing.T, selector *metav1.LabelSelector, among []*appsv1.Deployment) []string {
	t.Helper()
	match, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, deployment := range among {
		if match.Matches(labels.Set(deployment.Spec.Template.Labels)) {
			names = append(names, deployment.Name)
		}
	}
	slices.Sort(names)
	return names
}

// parts returns the Deployments of an installation.
func parts(split bool) (all, apiserver, mcp []string) {
	if split {
		return []string{"coder-k8s-apiserver", "coder-k8s-controller", "coder-k8s-mcp"}, []string{"coder-k8s-apiserver"}, []string{"coder-k8s-mcp"}
	}
	one := []string{program}
	return one, one, one
}

func isSplit(name string) bool {
	return slices.Contains([]string{"split", "split-ha", "everything", "host-network", "split-namespaced"}, name)
}

// TestServices checks that each Service selects exactly the pods of its component, and
// uses one of their ports.
func TestServices(t *testing.T) {
	eachInstallation(t, func(t *testing.T, name string, objects rendering) {
		all, apiserver, mcp := parts(isSplit(name))
		want := map[string][]string{program: mcp, "coder-k8s-apiserver": apiserver, "coder-k8s-metrics": all}
		running := deployments(t, objects)
		got := map[string][]string{}
		for _, service := range ofKind[corev1.Service](t, objects, "Service") {
			got[service.Name] = selected(t, &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, running)
			for _, deployment := range running {
				if slices.Contains(got[service.Name], deployment.Name) {
					hasPorts(t, service, deployment)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func hasPorts(t *testing.T, service *corev1.Service, deployment *appsv1.Deployment) {
	t.Helper()
	for _, port := range service.Spec.Ports {
		if !slices.ContainsFunc(deployment.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.TargetPort.StrVal
		}) {
			t.Errorf("Service %s: Deployment %s has no port %q", service.Name, deployment.Name, port.TargetPort.String())
		}
	}
}

// TestDeploymentsSelectTheirPods checks that no Deployment selects the pods of another
// one. The selector of the all-in-one Deployment is immutable, so it must not change
// between versions.
func TestDeploymentsSelectTheirPods(t *testing.T) {
	eachInstallation(t, func(t *testing.T, name string, objects rendering) {
		running := deployments(t, objects)
		for _, deployment := range running {
			if diff := cmp.Diff([]string{deployment.Name}, selected(t, deployment.Spec.Selector, running)); diff != "" {
				t.Errorf("%s: %s", deployment.Name, diff)
			}
			want := map[string]string{labelName: program}
			if !isSplit(name) && !maps.Equal(deployment.Spec.Selector.MatchLabels, want) {
				t.Errorf("the selector is %v, not %v", deployment.Spec.Selector.MatchLabels, want)
			}
		}
	})
}

// TestHighAvailability: an APIService without a pod blocks the deletion of every
// namespace, so all Deployments have two replicas that prefer different nodes, and a
// drain evicts one replica of a component at a time. Without the component
// high-availability no replica requires a second node.
func TestHighAvailability(t *testing.T) {
	eachInstallation(t, func(t *testing.T, name string, objects rendering) {
		running := deployments(t, objects)
		guarded := map[string]int{}
		for _, budget := range ofKind[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget") {
			names := selected(t, budget.Spec.Selector, running)
			if len(names) != 1 || budget.Spec.MaxUnavailable == nil || budget.Spec.MaxUnavailable.IntValue() != 1 ||
				*budget.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
				t.Errorf("PodDisruptionBudget %s is for %v and allows %v", budget.Name, names, budget.Spec.MaxUnavailable)
			}
			for _, name := range names {
				guarded[name]++
			}
		}
		whenUnsatisfiable := corev1.ScheduleAnyway
		if slices.Contains([]string{"ha", "split-ha", "everything", "namespaced-closed"}, name) {
			whenUnsatisfiable = corev1.DoNotSchedule
		}
		for _, deployment := range running {
			pods := deployment.Spec.Template.Spec
			spread := pods.TopologySpreadConstraints
			if len(spread) != 1 || !slices.Equal(selected(t, spread[0].LabelSelector, running), []string{deployment.Name}) {
				t.Fatalf("%s is not spread over nodes by its own pods: %v", deployment.Name, spread)
			}
			if spread[0].WhenUnsatisfiable != whenUnsatisfiable || !slices.Equal(spread[0].MatchLabelKeys, []string{"pod-template-hash"}) {
				t.Errorf("%s is spread by %+v, not with %s", deployment.Name, spread[0], whenUnsatisfiable)
			}
			if *deployment.Spec.Replicas != 2 || guarded[deployment.Name] != 1 || pods.PriorityClassName != program {
				t.Errorf("%s has %d replicas, %d budgets and priority class %q",
					deployment.Name, *deployment.Spec.Replicas, guarded[deployment.Name], pods.PriorityClassName)
			}
			if slices.Contains(pods.Containers[0].Args, "--leader-elect=false") {
				t.Errorf("%s has replicas and elects no leader", deployment.Name)
			}
		}
		if classes := ofKind[schedulingv1.PriorityClass](t, objects, "PriorityClass"); len(classes) != 1 || classes[0].Name != program {
			t.Errorf("the priority classes are %v", classes)
		}
	})
}

// TestServingPort checks that the port of the aggregated API is the same in the
// program's arguments, the container and the NetworkPolicy, and that in the node's
// network no two pods use it at the same time.
func TestServingPort(t *testing.T) {
	eachInstallation(t, func(t *testing.T, name string, objects rendering) {
		_, apiserver, _ := parts(isSplit(name))
		for _, deployment := range deployments(t, objects) {
			if !slices.Contains(apiserver, deployment.Name) {
				continue
			}
			want, pods := apiserverPort(name), deployment.Spec.Template.Spec
			if pods.Containers[0].Ports[0].ContainerPort != want {
				t.Errorf("the container's port is %d, not %d", pods.Containers[0].Ports[0].ContainerPort, want)
			}
			if given := slices.Contains(pods.Containers[0].Args, fmt.Sprintf("--secure-port=%d", want)); given != (want != 6443) {
				t.Errorf("the arguments are %q", pods.Containers[0].Args)
			}
			if pods.HostNetwork != (name == "host-network") || pods.HostNetwork && (deployment.Spec.Strategy.RollingUpdate.MaxSurge.IntValue() != 0 ||
				pods.DNSPolicy != corev1.DNSClusterFirstWithHostNet) {
				t.Errorf("hostNetwork is %t, with %+v", pods.HostNetwork, deployment.Spec.Strategy.RollingUpdate)
			}
		}
	})
}

// apiserverPort returns the port of the aggregated API of an installation.
func apiserverPort(name string) int32 {
	if name == "private" || name == "port-10250" {
		return 10250
	}
	return 6443
}
