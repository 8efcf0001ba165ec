#!/usr/bin/env bash
# flux.sh [build | test [GO TEST FLAG...] | run]: Flux's kustomize-controller against a cluster.
#   build  builds the controller from the Go module proxy, and fetches the CRDs that it needs, into $CACHE/peers.
#   test   builds, and runs test/peers/flux against $KUBECONFIG. -test.run TestPlainObjects needs nothing but a cluster,
#          -test.run TestObjectsOfCoder a CoderControlPlane "coder" in namespace "coder" that is Ready.
#   run    builds, applies the CRDs to $KUBECONFIG and runs the controller in the foreground, to try it by hand.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
PEERS="$CACHE/peers"
# The CRDs of the sources are in source-controller's own module; the controller's go.mod names its API alone.
SOURCE_CONTROLLER=v1.9.0

module_dir() { # module@version
  go mod download -json "$1" | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p'
}

build() {
  local from log="$CACHE/logs/build/kustomize-controller.log"
  mkdir -p "$PEERS/crds" "$(dirname "$log")"
  cd "$HERE/../../test/peers/flux"
  # Both with the same flags, so that common packages are compiled once.
  export CGO_ENABLED=0
  {
    go build -trimpath -ldflags "-s -w" -o "$PEERS/kustomize-controller.new" github.com/fluxcd/kustomize-controller &&
      go test -trimpath -tags e2e -c -o "$PEERS/flux.new" .
  } >"$log" 2>&1 || { tail_of "$log"; die "kustomize-controller or test/peers/flux could not be built: see $log"; }
  mv "$PEERS/kustomize-controller.new" "$PEERS/kustomize-controller"
  mv "$PEERS/flux.new" "$PEERS/flux.test"
  from=$(go list -m -f '{{.Dir}}' github.com/fluxcd/kustomize-controller)
  install -m 644 "$from"/config/crd/bases/*.yaml "$PEERS/crds/"
  from=$(module_dir "github.com/fluxcd/source-controller@$SOURCE_CONTROLLER")
  install -m 644 "$from"/config/crd/bases/*.yaml "$PEERS/crds/"
}

case "${1:-build}" in
  build)
    build
    echo "$PEERS/kustomize-controller and $PEERS/crds are there; with KUBECONFIG set: $0 test -test.v, or $0 run" ;;
  test)
    shift
    [ -n "${KUBECONFIG:-}" ] || die "KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster"
    build
    export FLUX_CONTROLLER="$PEERS/kustomize-controller" FLUX_CRDS="$PEERS/crds"
    exec "$PEERS/flux.test" -test.timeout 30m "$@" ;;
  run)
    [ -n "${KUBECONFIG:-}" ] || die "KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster"
    build
    "$BIN/kubectl" apply --server-side -f "$PEERS/crds"
    exec env RUNTIME_NAMESPACE="${RUNTIME_NAMESPACE:-flux-system}" "$PEERS/kustomize-controller" \
      --metrics-addr=0 --health-addr=127.0.0.1:0 ;;
  *) die "flux.sh knows build, test and run, not \"$1\"" ;;
esac
