package plugin

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTree(t *testing.T) {
	got := newHarness().run(t, sampleAPI(t), "tree", "-n", "coder")
	got.want(t, 0, "CoderControlPlane/coder", "")
	golden(t, "tree.golden", got.out)
	golden(t, "tree-renamed.golden", newHarness().run(t, renamedAPI(t), "tree", "-n", "coder").out)
	d := newHarness()
	d.coloured = true
	golden(t, "tree-coloured.golden", d.run(t, sampleAPI(t), "tree", "-n", "coder", "workspace/ada.dev").out)
	golden(t, "tree-json.golden", newHarness().run(t, sampleAPI(t), "tree", "-n", "coder", "workspace/ada.dev", "-o", "json").out)

	newHarness().run(t, sampleAPI(t), "tree", "-n", "empty").want(t, 1, "", "there is no such control plane in namespace empty")
	api := sampleAPI(t)
	api.answer("GET /api/v1/namespaces/coder/secrets", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "you may not list secrets"))
	newHarness().run(t, api, "tree", "-n", "coder").want(t, 3, "Deployment/coder", "secrets: you may not list secrets")
}
