#!/usr/bin/env bash
# argocd.sh [build | test [GO TEST FLAG...]]: Argo CD's gitops-engine against a cluster.
#   build  builds test/peers/argocd from the Go module proxy into $CACHE/peers.
#   test   builds, and runs it against $KUBECONFIG. -test.run TestPlainObjects needs nothing but a cluster,
#          -test.run TestObjectsOfCoder a CoderControlPlane "coder" in namespace "coder" that is Ready.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
PEERS="$CACHE/peers"

build() {
  local log="$CACHE/logs/build/argocd.log"
  mkdir -p "$PEERS" "$(dirname "$log")"
  cd "$HERE/../../test/peers/argocd"
  go test -tags e2e -c -o "$PEERS/argocd.new" . >"$log" 2>&1 || { tail_of "$log"; die "test/peers/argocd could not be built: see $log"; }
  mv "$PEERS/argocd.new" "$PEERS/argocd.test"
}

case "${1:-build}" in
  build)
    build
    echo "$PEERS/argocd.test is there; with KUBECONFIG set: $0 test -test.v" ;;
  test)
    shift
    [ -n "${KUBECONFIG:-}" ] || die "KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster"
    build
    exec "$PEERS/argocd.test" -test.timeout 30m "$@" ;;
  *) die "argocd.sh knows build and test, not \"$1\"" ;;
esac
