#!/usr/bin/env bash
# run.sh [GO TEST FLAG...]: the end-to-end tests. Each test of test/e2e is a scenario with its own cluster, and
# runs in group.sh, all at the same time, because they mostly wait. The output of a test is printed when it ends,
# and the summary of all at the end. Without -run those of NIGHTLY, which need clusters of another kind or too much
# time for CI (make test-nightly), or hours (TestSoak), are left out. With -run only the necessary clusters are started: -run
# 'TestOperation/TLS'. E2E_KEEP=1 keeps the clusters, to debug failures. TEST_RESULTS is a directory for the runner's
# events (test-e2e.json).
set -euo pipefail
base="${CLUSTER_NAME:-e2e}"
[ ${#base} -le 10 ] || { echo "error: CLUSTER_NAME \"$base\" must have at most 10 characters: each test adds a number" >&2; exit 1; }
export CLUSTER_NAME="$base-1"
# This machine may be busy with other work, and long deadlines cost nothing if all tests pass.
export CLUSTER_PATIENCE="${CLUSTER_PATIENCE:-4}"
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"

# The flags of "go test" are those of a test binary without the prefix "test.".
pattern="" flags=()
while [ $# -gt 0 ]; do
  flag="${1#-}" && flag="${flag#-}" && flag="${flag#test.}"
  case "$1" in
    -run | --run | -test.run) pattern="${2:?-run needs a pattern}" && shift ;;
    -run=* | --run=* | -test.run=*) pattern="${1#*=}" ;;
    -*) flags+=("-test.$flag") ;;
    *) flags+=("$1") ;;
  esac
  shift
done

NIGHTLY='^(TestInstallation|TestCoderLifecycle|TestIPv6Only|TestDualStack|TestNodeFaults|TestSoak)$'
tests=()
for name in $(sed -n 's/^func \(Test[A-Za-z0-9]*\)(t \*testing\.T) {$/\1/p' test/e2e/*_test.go); do
  if [ -z "$pattern" ] && [[ "$name" =~ $NIGHTLY ]]; then continue; fi
  if [[ "$name" =~ ${pattern%%/*} ]]; then tests+=("$name"); fi
done
[ ${#tests[@]} -gt 0 ] || die "no test of test/e2e has a name like \"${pattern%%/*}\""
[ "$pattern" = "${pattern%%/*}" ] && below="" || below="/${pattern#*/}"

. "$HERE/preconditions.sh"
logs="$CACHE/logs/$base-tests"
results="${TEST_RESULTS:-$logs}"
rm -rf "$logs" && mkdir -p "$logs" "$results"
built="$logs/built"
declare -A group=() # The tests by their process.
beat=""

finish() {
  local rc=$? pid
  trap - EXIT
  trap '' INT TERM HUP
  for pid in $beat "${!group[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
# A second signal, such as those of timeout, must not end finish.
trap 'trap "" INT TERM HUP; exit 143' TERM HUP

# The programs and images of all clusters are built first, once. The clusters start while the tests are built.
"$HERE/packages.sh"
"$HERE/build.sh"
"$HERE/images.sh"
for name in "${tests[@]}"; do
  # In bash, background processes and their children ignore interrupts by default.
  CLUSTER_NAME="$base-$((${#group[@]} + 1))" env --default-signal=INT,QUIT test/e2e/group.sh "$name" "$built" \
    -test.run "^$name\$$below" "${flags[@]}" >"$logs/$name.log" 2>&1 &
  group[$!]="$name"
done

log="$CACHE/logs/build/operator.log"
mkdir -p "$(dirname "$log")"
: >"$log"
not_built() { die "$1 could not be built: see $log"; }
watched "$log" "make build" make --no-print-directory build || not_built "the operator"
watched "$log" "image" hack/image/build.sh bin/coder-k8s bin/coder-k8s.tar || not_built "the image"
watched "$log" "end-to-end tests" go test -c -tags "e2e,$OPERATOR_TAGS" -o bin/e2e.test ./test/e2e || not_built "test/e2e"
watched "$log" "tests of the monitoring" go test -c -tags "e2e,$OPERATOR_TAGS" -o bin/monitoring.test ./test/monitoring || not_built "test/monitoring"
hack/tools.sh helm gotestsum
test/monitoring/build.sh
if [[ " ${tests[*]} " = *" TestInstallation "* ]]; then
  # If the clone has no history, the test of the upgrade reports it.
  status=0
  test/e2e/previous.sh "$CACHE/previous" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit 1
  watched "$log" "tests of the client of Coder" go test -c -o bin/coderd.test ./internal/coderd || not_built "internal/coderd"
fi
touch "$built"
step "all is built; at work: ${tests[*]} (logs: $logs)"

# The current step of each running test.
where() { sed -n 's/^=== RUN *//p' "$logs/$1.log" | tail -n 1; }
(
  while sleep 30 >/dev/null 2>&1; do
    for name in "${tests[@]}"; do
      [ -e "$logs/$name.ended" ] || step "  $name: $(where "$name")"
    done
  done
) &
beat=$!

failed=()
while [ ${#group[@]} -gt 0 ]; do
  status=0
  wait -n -p pid "${!group[@]}" || status=$?
  name="${group[$pid]}"
  unset "group[$pid]"
  touch "$logs/$name.ended"
  [ "$status" = 0 ] || failed+=("$name")
  step "$name: what it printed"
  cat "$logs/$name.log"
  step "$name ended with status $status"
done
kill "$beat" && wait "$beat" 2>/dev/null || true
beat=""
# The runner's summary of all of them: the number of tests, and what each failed test printed.
events() { for name in "$@"; do sed -n '/^=== RUN/,$p' "$logs/$name.log" | go tool test2json -t -p "test/e2e/$name"; done; }
export -f events
export logs
"$TOOLS_DIR/gotestsum" --format pkgname --jsonfile "$results/test-e2e.json" --raw-command -- bash -c 'events "$@"' events "${tests[@]}" || true
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
