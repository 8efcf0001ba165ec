package migrate

import (
	"fmt"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/migrate/manifests"
)

const howTo = "docs/how-to/migrate-from-helm.md"

// nextSteps returns the next steps if the manifest was only written.
func nextSteps(source manifests.Source, manifest *manifests.Manifest) []string {
	return []string{
		fmt.Sprintf("Look whether the cluster takes it: `kubectl apply --dry-run=server -f %s`.", manifest.FileName()),
		fmt.Sprintf("Take the running objects over in place: `coder-k8s migrate helm --release %s -n %s --take-over --dry-run` says what would happen.",
			source.Release, source.Namespace),
		fmt.Sprintf("Or move with a pause: %s. A %s does not touch objects of the release that were not handed over.",
			howTo, strings.ToLower(manifest.Kind)),
	}
}

// stepsAfter returns the next steps after the objects were taken over.
func stepsAfter(source manifests.Source, manifest *manifests.Manifest) []string {
	kind := strings.ToLower(manifest.Kind)
	return []string{
		fmt.Sprintf("Keep the manifest where your other manifests are: what it says is what `kubectl -n %s get %s %s` has now.",
			manifest.Namespace, kind, manifest.Name),
		fmt.Sprintf("Do not run `helm uninstall %s`: it would delete what was taken over. Until Helm forgot the release, `helm upgrade` may write over it.",
			source.Release),
		fmt.Sprintf("Let Helm forget the release when all is well: `kubectl -n %s delete secret -l owner=helm,name=%s`. That deletes only what Helm remembers.",
			source.Namespace, source.Release),
		"What the chart made besides stays until somebody deletes it: Role and RoleBinding for workspaces, for which the operator has its own, and what came from `extraTemplates`.",
		fmt.Sprintf("The way back, before Helm forgot: `kubectl -n %s delete %s %s --cascade=orphan`, then `helm -n %s upgrade` as before.",
			manifest.Namespace, kind, manifest.Name, source.Namespace),
	}
}
