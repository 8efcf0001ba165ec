package resources

import (
	"errors"
	"io"
	"os"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestSamplePoliciesLetJobsReachTheDatabase checks that config/samples/networkpolicies.yaml, which denies what it does not
// allow, selects the pods that connect to the database.
func TestSamplePoliciesLetJobsReachTheDatabase(t *testing.T) {
	file, err := os.Open("../../../config/samples/networkpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reached := map[string]bool{coderv1alpha1.ControlPlaneName: false, adminJobPodName: false, databaseJobPodName: false}
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var policy networkingv1.NetworkPolicy
		if err := decoder.Decode(&policy); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		for name := range reached {
			for _, rule := range policy.Spec.Egress {
				for _, port := range rule.Ports {
					if selector.Matches(labels.Set{coderv1alpha1.LabelName: name}) && port.Port.IntValue() == 5432 {
						reached[name] = true
					}
				}
			}
		}
	}
	for name, open := range reached {
		if !open {
			t.Errorf("the pods %s do not reach the database", name)
		}
	}
}
