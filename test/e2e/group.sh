#!/usr/bin/env bash
# group.sh TEST BUILT FLAG...: starts the cluster CLUSTER_NAME, runs one test of bin/e2e.test on it once the file
# BUILT is there, with these flags, and removes the cluster. Started by run.sh alone, which builds what it needs.
set -euo pipefail
timeout=80m
case "$1" in
  TestIPv6Only) export CLUSTER_FAMILY=ipv6 ;;
  TestDualStack) export CLUSTER_FAMILY=dual ;;
  TestNodeFaults) export CLUSTER_NODES=3 ;;
  TestSoak) timeout=4h ;;
esac
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
name="$1" built="$2"
shift 2

# Bash handles a signal only after a foreground command has ended, so commands run in the background.
child=""
run() {
  local status=0
  env --default-signal=INT,QUIT "$@" &
  child=$!
  wait "$child" || status=$?
  child=""
  return $status
}
finish() {
  local rc=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [ -n "$child" ]; then kill "$child" 2>/dev/null && wait "$child" || true; fi
  if [ -n "${E2E_KEEP:-}" ]; then
    step "kept: CLUSTER_NAME=$CLUSTER_NAME hack/cluster/down.sh removes it"
    exit $rc
  fi
  # Quiet on success, so that the output ends with the tests' result.
  local log="$CACHE/logs/$CLUSTER_NAME-down.log"
  "$HERE/down.sh" >"$log" 2>&1 || { tail_of "$log"; rc=1; }
  # Resources that the kernel removes after the last process may exist for a moment.
  until_ok 15 "nothing to be left" "$HERE/leftovers.sh" "$CLUSTER_NAME" ||
    "$HERE/leftovers.sh" "$CLUSTER_NAME" >"$log" 2>&1 || { tail_of "$log"; rc=1; }
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
# A second signal, such as those of timeout, must not end finish.
trap 'trap "" INT TERM HUP; exit 143' TERM HUP

run "$HERE/up.sh"
# Stops waiting if run.sh, which builds, was killed.
until [ -e "$built" ]; do run sleep 1 && kill -0 "$PPID"; done
run "$HERE/load-image.sh" bin/coder-k8s.tar
eval "$("$HERE/env.sh")"
export E2E_POSTGRES_URL="$DEMO_POSTGRES_URL" E2E_HOST_IPS="$HOST_IPS" E2E_CODER_IMAGE="$CODER_IMAGE" E2E_WORKSPACE_IMAGE="$WORKSPACE_IMAGE" E2E_POSTGRES_IMAGE="$POSTGRES_IMAGE" E2E_WORKSPACE_ROOT="$CACHE/workspace" E2E_PREVIOUS="$CACHE/previous" E2E_IMAGES="$IMAGES" MONITORING_TEST="$PWD/bin/monitoring.test"
# A Coder that starts takes a minute. internal/polltest multiplies this by the load of the machine.
export CODER_K8S_TEST_TIMEOUT="${CODER_K8S_TEST_TIMEOUT:-4m}"
# kubectl, which runs a thousand times, then takes a quarter less processor time.
export GOGC=400
step "$name"
cd test/e2e
# Parallel tests mostly wait, so their number does not depend on the number of cores.
run ../../bin/e2e.test -test.v -test.timeout $timeout -test.parallel 16 "$@"
