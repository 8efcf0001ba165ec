package provisioner

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/test/kstatus"
)

// TestALifeAsKstatusSeesIt takes a provisioner through its lifecycle. At each step it checks the
// kstatus of its conditions, on which tools wait.
func TestALifeAsKstatusSeesIt(t *testing.T) {
	f := newFixture(t, newProvisioner(), newControlPlane())
	judged := func(when, want string) {
		t.Helper()
		got, err := kstatus.Of(f.provisioner())
		f.must(err)
		if got != want {
			t.Errorf("%s it is %s, want %s; conditions %+v", when, got, want, f.provisioner().Status.Conditions)
		}
	}
	f.reconcile()
	judged("while the pods start", kstatus.InProgress)
	f.settle()
	judged("when the daemons run", kstatus.Current)

	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = map[string]string{"zone": "b"} })
	judged("before anybody saw the new tags", kstatus.InProgress)
	f.settle()
	judged("with the new tags", kstatus.Current)

	f.coder.SetFeature(feature, "not_entitled")
	f.forward(time.Hour)
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = map[string]string{"zone": "c"} })
	f.settle()
	judged("without a license", kstatus.Failed)
	f.coder.SetFeature(feature, "entitled")
	f.forward(time.Hour)
	f.settle()
	judged("with a license again", kstatus.Current)

	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Replicas = ptr.To[int32](0) })
	f.settle()
	judged("scaled to zero", kstatus.Current)

	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.delete()
	judged("when it is deleted", kstatus.Terminating)
	f.reconcile()
	judged("while the key cannot be deleted", kstatus.Terminating)
}
