# shellcheck shell=bash
# environment.sh: the environment of the unit and integration tests. Sourced after settings.sh and lib.sh, in the
# repository's directory.
if [ -z "${KUBEBUILDER_ASSETS:-}" ]; then
  "$HERE/build.sh" etcd apiserver
  export KUBEBUILDER_ASSETS="$BIN"
fi
# Tests of the Helm chart render it with the real helm.
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
hack/tools.sh gotestsum helm
test/monitoring/build.sh
# A test process lives for seconds and fits in memory many times over. With Go's default (100) the garbage collector
# took a quarter of the processor time of the slowest tests; with this setting it collects a quarter as often, up to 2
# GiB.
export GOGC=400 GOMEMLIMIT=2GiB
# The library's own detector of changes to cached objects is on in every test.
export KUBE_CACHE_MUTATION_DETECTOR=true
# So is the one that compares the caches of the aggregated API with the records, in the processes that the tests start: every
# five minutes. In the tests of internal/apiserver it compares every two seconds.
export KUBE_WATCHCACHE_CONSISTENCY_CHECKER=true
# KUBE_WATCHLIST_INCONSISTENCY_DETECTOR is not set here, because the operator's own informers would inherit it: it
# treats typed custom resources as different if a watch includes their kind and a list omits it. The tests whose
# informers read the aggregated API (internal/apiserver, test/integration) switch it on in their TestMain.
# The longest tests of test/integration. They take as long as its other tests, and run beside them, with their own
# kube-apiserver.
# shellcheck disable=SC2034
LONG_TESTS='^(TestHistory|TestAbsence|TestNamespaceDeletedDuringFirstSync|TestKubeAPIServerAway|TestMCPRights)$'
