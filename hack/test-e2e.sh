#!/usr/bin/env bash
# test-e2e.sh [GO TEST FLAG...]: the end-to-end tests on a cluster of their own,
# which is removed when they end. E2E_KEEP=1 keeps it, to look at what failed.
set -euo pipefail
export CLUSTER_NAME="${CLUSTER_NAME:-e2e}"
# Other things may be at work on this machine, and a deadline costs nothing where all is well.
export CLUSTER_PATIENCE="${CLUSTER_PATIENCE:-4}"
. "$(dirname "$0")/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."

finish() {
  local rc=$?
  trap - EXIT
  if [ -n "${E2E_KEEP:-}" ]; then
    echo "kept: CLUSTER_NAME=$CLUSTER_NAME hack/cluster/down.sh removes it"
    exit $rc
  fi
  # Quiet when all is well, so that what is printed ends with the tests' result.
  local log="$CACHE/logs/e2e-down.log"
  "$HERE/down.sh" >"$log" 2>&1 || { tail_of "$log"; rc=1; }
  # What the kernel takes away after the last process may be there for a moment.
  until_ok 15 "nothing to be left" "$HERE/leftovers.sh" "$CLUSTER_NAME" ||
    "$HERE/leftovers.sh" "$CLUSTER_NAME" >"$log" 2>&1 || { tail_of "$log"; rc=1; }
  exit $rc
}
trap finish EXIT

"$HERE/up.sh"
log="$CACHE/logs/build/operator.log"
: >"$log"
watched "$log" "make build" make --no-print-directory build || die "the operator could not be built: see $log"
watched "$log" "image" hack/image/build.sh bin/coder-k8s bin/coder-k8s.tar || die "the image could not be assembled: see $log"
"$HERE/load-image.sh" bin/coder-k8s.tar
hack/tools.sh helm
hack/monitoring/build.sh
eval "$("$HERE/env.sh")"
export E2E_POSTGRES_URL="$DEMO_POSTGRES_URL"
# A Coder that starts takes a minute; internal/polltest says what this is.
export CODER_K8S_TEST_TIMEOUT="${CODER_K8S_TEST_TIMEOUT:-10m}"
# With flags of "go test", somebody looks at one thing.
if [ $# = 0 ]; then
  step "ways of installation"
  hack/install-test.sh
  step "Helm chart"
  hack/chart/cluster-test.sh
fi
step "end-to-end tests"
log="$CACHE/logs/e2e-test.log"
if ! go test -tags e2e -count=1 -timeout 60m -v "$@" ./test/e2e/... 2>&1 | tee "$log"; then
  awk -f hack/failures.awk "$log"
  exit 1
fi
