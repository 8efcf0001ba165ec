#!/usr/bin/env bash
# test.sh [PACKAGE...]: unit and integration tests with the race detector.
# The integration tests start the etcd and kube-apiserver that the demo also
# uses, or those in KUBEBUILDER_ASSETS; what is missing is built first.
set -euo pipefail
. "$(dirname "$0")/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
if [ -z "${KUBEBUILDER_ASSETS:-}" ]; then
  "$HERE/build.sh" etcd kube
  export KUBEBUILDER_ASSETS="$BIN"
fi
# Tests of the Helm chart render it with the real helm.
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
hack/tools.sh helm
hack/monitoring/build.sh
# The library's own detector of changes to cached objects is on in every test.
export KUBE_CACHE_MUTATION_DETECTOR=true
# So is the one that compares the cacher of the aggregated API with the log below it,
# in the tests and in the processes that they start; it looks every five minutes.
export KUBE_WATCHCACHE_CONSISTENCY_CHECKER=true
# KUBE_WATCHLIST_INCONSISTENCY_DETECTOR is not set here, because the operator's own
# informers would inherit it: it takes typed custom resources for different whose kind
# a watch tells and a list leaves out. The tests whose informers read the aggregated API
# (internal/apiserver, test/integration) switch it on in their TestMain.
[ $# -gt 0 ] || set -- ./...
step "compiling with the race detector"
log="$CACHE/logs/build/tests.log"
: >"$log" 2>/dev/null || { mkdir -p "$(dirname "$log")" && : >"$log"; }
watched "$log" "go build -race" go build -race -v "$@" || die "it does not compile: see $log"
if [ "$*" = ./... ]; then
  # The tools that assemble images, releases and the Helm chart are modules of their own.
  (cd hack/image && go test ./...)
  (cd hack/release && go test ./...)
  (cd hack/chart && go test ./...)
fi
step "go test -race $*"
go test -race -count=1 -timeout 20m "$@"
