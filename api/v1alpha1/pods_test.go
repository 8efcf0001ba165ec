package v1alpha1

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodLabels(t *testing.T) {
	own := ControlPlaneLabels("coder")
	for selector, want := range map[string]map[string]string{
		"":                                    own,
		"a in (b,c)":                          own,
		"app.kubernetes.io/instance=release":  {LabelInstance: "release"},
		"coder.com/of=x,app.example.com/y=zz": {"coder.com/of": "x", "app.example.com/y": "zz"},
	} {
		cp := &CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "coder"}}
		cp.Status.Selector = selector
		if got := cp.PodLabels(); !maps.Equal(got, want) {
			t.Errorf("with the selector %q the labels are %v, want %v", selector, got, want)
		}
	}
}
