package framework

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestRecoveryIsNewsAndABeginningIsNot limits the number of Events for a new object.
func TestRecoveryIsNewsAndABeginningIsNot(t *testing.T) {
	const part = coderv1alpha1.ConditionDeploymentAvailable
	works := ConditionTrue(part, coderv1alpha1.ReasonAvailable, "works")
	for name, test := range map[string]struct {
		before []metav1.Condition
		want   bool
	}{
		"from the beginning":           {nil, false},
		"after nothing was known":      {[]metav1.Condition{ConditionUnknown(part, coderv1alpha1.ReasonWaiting, "")}, false},
		"after it was on its way":      {[]metav1.Condition{ConditionFalse(part, coderv1alpha1.ReasonProgressing, "")}, false},
		"after a failure":              {[]metav1.Condition{ConditionFalse(part, coderv1alpha1.ReasonImagePullFailed, "")}, true},
		"in another way than before":   {[]metav1.Condition{ConditionTrue(part, coderv1alpha1.ReasonScaledToZero, "")}, true},
		"after another part's failure": {[]metav1.Condition{ConditionFalse(coderv1alpha1.ConditionCoderReachable, coderv1alpha1.ReasonUnreachable, "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reported(test.before, works.Type); got != test.want {
				t.Errorf("reported is %v, want %v", got, test.want)
			}
		})
	}
}
