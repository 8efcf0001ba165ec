package manifests

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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

// selected are the names of the Deployments whose pods a selector selects.
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

// parts are the Deployments of an installation.
func parts(split bool) (all, apiserver, mcp []string) {
	if split {
		return []string{"coder-k8s-apiserver", "coder-k8s-controller", "coder-k8s-mcp"}, []string{"coder-k8s-apiserver"}, []string{"coder-k8s-mcp"}
	}
	one := []string{program}
	return one, one, one
}

func isSplit(name string) bool { return name == "split" || name == "split-ha" || name == "everything" }

// TestServices: each Service reaches exactly the pods that serve what it is for, at a
// port that they have.
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

// TestDeploymentsSelectTheirPods: a Deployment that selected another's pods would
// take them for its own. That of the all-in-one installation cannot be changed any
// more, so its selector is what it always was.
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

// TestHighAvailability: where there are replicas they are on different nodes, and
// draining a node takes one of a part at a time. A single replica stands in nobody's
// way.
func TestHighAvailability(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		running := deployments(t, objects)
		guarded := map[string]int{}
		for _, budget := range ofKind[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget") {
			names := selected(t, budget.Spec.Selector, running)
			if len(names) != 1 || budget.Spec.MaxUnavailable == nil || budget.Spec.MaxUnavailable.IntValue() != 1 {
				t.Errorf("PodDisruptionBudget %s is for %v and allows %v", budget.Name, names, budget.Spec.MaxUnavailable)
			}
			for _, name := range names {
				guarded[name]++
			}
		}
		for _, deployment := range running {
			pods, replicas := deployment.Spec.Template.Spec, *deployment.Spec.Replicas
			spread := pods.TopologySpreadConstraints
			if len(spread) != 1 || !slices.Equal(selected(t, spread[0].LabelSelector, running), []string{deployment.Name}) {
				t.Fatalf("%s is not spread over nodes by its own pods: %v", deployment.Name, spread)
			}
			switch {
			case replicas == 1 && (guarded[deployment.Name] != 0 || pods.PriorityClassName != ""):
				t.Errorf("%s has one replica, and a budget or a priority", deployment.Name)
			case replicas > 1 && guarded[deployment.Name] != 1:
				t.Errorf("%s has %d replicas and %d budgets", deployment.Name, replicas, guarded[deployment.Name])
			case replicas > 1 && (spread[0].WhenUnsatisfiable != corev1.DoNotSchedule || pods.PriorityClassName != program):
				t.Errorf("%s: its replicas may be on one node, or without priority: %+v", deployment.Name, spread[0])
			}
		}
	})
}
