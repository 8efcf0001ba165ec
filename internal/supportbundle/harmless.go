package supportbundle

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// harmlessVariables are the variables of the environment whose values may be told:
// those that the operator and its manifests set, and those of Coder that switch
// something on or say where it listens.
var harmlessVariables = regexp.MustCompile(`^(?:` +
	`POD_NAME|POD_NAMESPACE|POD_IP|KUBE_POD_IP|GOGC|GOMEMLIMIT|GOMAXPROCS|GODEBUG|` +
	`CODER_URL|CODER_ACCESS_URL|CODER_WILDCARD_ACCESS_URL|CODER_PRIMARY_ACCESS_URL|CODER_DERP_SERVER_RELAY_URL|` +
	`CODER_USERNAME|CODER_PROVISIONER_DAEMON_NAME|CODER_PROVISIONERD_TAGS|CODER_VERBOSE|CODER_EXPERIMENTS|` +
	`CODER_[A-Z0-9_]+_(?:ENABLED?|DISABLED?|ADDRESS|FILE|INTERVAL|TIMEOUT|LEVEL|DAEMONS|MIN_VERSION)` +
	`)$`)

// plainValue is a value that can be no secret.
var plainValue = regexp.MustCompile(`^(?:|true|false|[0-9]{1,5}|[0-9]+(?:ms|s|m|h)|\$\([A-Z0-9_]+\))$`)

// harmlessAnnotations are the domains of annotations that hold no secret: those
// of Kubernetes, of its package managers, and our own.
var harmlessAnnotations = regexp.MustCompile(`^(?:` +
	`(?:[a-z-]+\.)?coder\.com/|[a-z-]+\.kubernetes\.io/|kubernetes\.io/|[a-z.-]*\.k8s\.io/|meta\.helm\.sh/|helm\.sh/|` +
	`kubectl\.kubernetes\.io/(?:default-container|restartedAt)$|cert-manager\.io/|argocd\.argoproj\.io/|kustomize\.toolkit\.fluxcd\.io/)`)

// harmlessFlags are the flags of the operator and of Coder whose values may be
// told. A flag with another name keeps its name alone.
var harmlessFlags = regexp.MustCompile(`^--?(?:` +
	`app|v|watch-namespaces?|cluster-domain|zap-[a-z-]+|log-[a-z-]+|leader-elect[a-z-]*|[a-z-]*bind-address|[a-z-]*-port|` +
	`[a-z-]*address|[a-z-]*-namespace|[a-z-]*-file|[a-z-]*-dir|[a-z-]*-interval|[a-z-]*-timeout|[a-z-]*-ratio|[a-z-]*-endpoint|` +
	`verbose)$`)

// harmlessWords are arguments that are no flags.
var harmlessWords = regexp.MustCompile(`^(?:server|provisionerd?|wsproxy|start|create-admin-user|coder|sh|bash|/opt/coder|/opt/coder/coder|` +
	`/bin/sh|/bin/bash|/usr/bin/env|/coder-k8s|coder-k8s|/ko-app/[a-z0-9-]+)$`)

// removed stands in place of a value. Its size is told, because an empty or cut off
// value is a common mistake.
func removed(value string) string {
	return fmt.Sprintf("%s %d characters", redaction.Placeholder, len([]rune(value)))
}

// learnable says whether a value that was removed must be looked for elsewhere too.
// A plain word, a path and a number stand in many places by themselves.
func learnable(name, value string) bool {
	if redaction.NamesSecret(name) {
		return true
	}
	const least = 8
	return len(value) >= least && !plainWords.MatchString(value) && !strings.HasPrefix(value, "/")
}

var plainWords = regexp.MustCompile(`^[a-z]+(?:[-_. ][a-z]+)*$`)
