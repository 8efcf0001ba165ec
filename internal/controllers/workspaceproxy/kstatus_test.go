package workspaceproxy

import (
	"testing"

	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
)

// TestALifeAsKstatusSeesIt takes a proxy through its lifecycle. At each step it checks the kstatus
// of its conditions, on which tools wait.
func TestALifeAsKstatusSeesIt(t *testing.T) {
	f := newFixture(t, newProxy())
	f.settle()
	f.MustBe("while the pods start", controllertest.KstatusInProgress)
	f.run()
	f.MustBe("when it runs", controllertest.KstatusCurrent)

	f.coder.AddProxy("taken", "Theirs", "/x.png")
	f.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.Bootstrap.ProxyName = "taken" })
	f.MustBe("before anybody saw the new name", controllertest.KstatusInProgress)
	f.run()
	f.MustBe("with the name of somebody else's proxy", controllertest.KstatusFailed)
	f.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.Bootstrap.ProxyName = "sydney" })
	f.run()
	f.MustBe("with its own name again", controllertest.KstatusCurrent)

	f.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.Replicas = ptr.To[int32](0) })
	f.run()
	f.MustBe("scaled to zero", controllertest.KstatusCurrent)

	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Delete()
	f.MustBe("when it is deleted", controllertest.KstatusTerminating)
	f.Reconcile()
	f.MustBe("while it cannot be unregistered", controllertest.KstatusTerminating)
}
