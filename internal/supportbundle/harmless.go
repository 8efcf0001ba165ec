package supportbundle

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// harmlessVariables matches the environment variables whose values are kept: those that the
// operator and its manifests set, and those that enable a feature of Coder or configure an
// address.
var harmlessVariables = regexp.MustCompile(`^(?:` +
	`POD_NAME|POD_NAMESPACE|POD_IP|KUBE_POD_IP|GOGC|GOMEMLIMIT|GOMAXPROCS|GODEBUG|` +
	`CODER_URL|CODER_ACCESS_URL|CODER_WILDCARD_ACCESS_URL|CODER_PRIMARY_ACCESS_URL|CODER_DERP_SERVER_RELAY_URL|` +
	`CODER_USERNAME|CODER_PROVISIONER_DAEMON_NAME|CODER_PROVISIONERD_TAGS|CODER_VERBOSE|CODER_EXPERIMENTS|` +
	`CODER_[A-Z0-9_]+_(?:ENABLED?|DISABLED?|ADDRESS|FILE|INTERVAL|TIMEOUT|LEVEL|DAEMONS|MIN_VERSION)` +
	`)$`)

// plainValue matches values that cannot be a secret.
var plainValue = regexp.MustCompile(`^(?:|true|false|[0-9]{1,5}|[0-9]+(?:ms|s|m|h)|\$\([A-Z0-9_]+\))$`)

// harmlessAnnotations matches annotations that contain no secrets: those of Kubernetes, of
// package managers, and of this project.
var harmlessAnnotations = regexp.MustCompile(`^(?:` +
	`(?:[a-z-]+\.)?coder\.com/|[a-z-]+\.kubernetes\.io/|kubernetes\.io/|[a-z.-]*\.k8s\.io/|meta\.helm\.sh/|helm\.sh/|` +
	`kubectl\.kubernetes\.io/(?:default-container|restartedAt)$|cert-manager\.io/|argocd\.argoproj\.io/|kustomize\.toolkit\.fluxcd\.io/)`)

// harmlessFlags matches the flags of the operator and of Coder whose values are kept. Of
// other flags, only the name is kept.
var harmlessFlags = regexp.MustCompile(`^--?(?:` +
	`app|v|watch-namespaces?|cluster-domain|zap-[a-z-]+|log-[a-z-]+|leader-elect[a-z-]*|[a-z-]*bind-address|[a-z-]*-port|` +
	`[a-z-]*address|[a-z-]*-namespace|[a-z-]*-file|[a-z-]*-dir|[a-z-]*-interval|[a-z-]*-timeout|[a-z-]*-ratio|[a-z-]*-endpoint|` +
	`verbose)$`)

// harmlessWords matches arguments that are not flags and are kept.
var harmlessWords = regexp.MustCompile(`^(?:server|provisionerd?|wsproxy|start|create-admin-user|coder|sh|bash|/opt/coder|/opt/coder/coder|` +
	`/bin/sh|/bin/bash|/usr/bin/env|/coder-k8s|coder-k8s|/ko-app/[a-z0-9-]+)$`)

// removed returns the replacement of a value. It contains the length, because empty and
// truncated values are common mistakes.
func removed(value string) string {
	return fmt.Sprintf("%s %d characters", redaction.Placeholder, len([]rune(value)))
}

// learnable reports whether a removed value must also be redacted elsewhere. Plain words,
// paths and short values are not, because they occur in many other places.
func learnable(name, value string) bool {
	if redaction.NamesSecret(name) {
		return true
	}
	const least = 8
	return len(value) >= least && !plainWords.MatchString(value) && !strings.HasPrefix(value, "/")
}

var plainWords = regexp.MustCompile(`^[a-z]+(?:[-_. ][a-z]+)*$`)
