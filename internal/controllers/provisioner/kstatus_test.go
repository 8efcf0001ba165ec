package provisioner

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
)

// TestALifeAsKstatusSeesIt takes a provisioner through its lifecycle. At each step it checks the
// kstatus of its conditions, on which tools wait.
func TestALifeAsKstatusSeesIt(t *testing.T) {
	f := newFixture(t, newProvisioner(), newControlPlane())
	f.Reconcile()
	f.MustBe("while the pods start", controllertest.KstatusInProgress)
	f.Settle()
	f.MustBe("when the daemons run", controllertest.KstatusCurrent)

	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = map[string]string{"zone": "b"} })
	f.MustBe("before anybody saw the new tags", controllertest.KstatusInProgress)
	f.Settle()
	f.MustBe("with the new tags", controllertest.KstatusCurrent)

	f.coder.SetFeature(feature, "not_entitled")
	f.Forward(time.Hour)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = map[string]string{"zone": "c"} })
	f.Settle()
	f.MustBe("without a license", controllertest.KstatusFailed)
	f.coder.SetFeature(feature, "entitled")
	f.Forward(time.Hour)
	f.Settle()
	f.MustBe("with a license again", controllertest.KstatusCurrent)

	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Replicas = ptr.To[int32](0) })
	f.Settle()
	f.MustBe("scaled to zero", controllertest.KstatusCurrent)

	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Delete()
	f.MustBe("when it is deleted", controllertest.KstatusTerminating)
	f.Reconcile()
	f.MustBe("while the key cannot be deleted", controllertest.KstatusTerminating)
}
