#!/usr/bin/env bash
# flakes.sh N [PACKAGE...]: runs the unit and integration tests N times with the race detector, next to a load
# generator that keeps every processor busy, and prints which tests failed and how often. The tests are compiled once.
# LOAD is the number of busy loops (default: one for each processor). RACE=off disables the race detector, and runs the tests
# that are skipped with it (kubetest.SkipWithRace). The logs of failed runs are kept in $CACHE/logs/flakes.
set -euo pipefail
. "$(dirname "$0")/../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
runs="${1:-}"
[ "$runs" -ge 1 ] 2>/dev/null || die "usage: test/flakes.sh N [PACKAGE...]; N is the number of runs, at least 1"
shift
[ $# -gt 0 ] || set -- ./...
. test/environment.sh
logs="$CACHE/logs/flakes"
rm -rf "$logs"
mkdir -p "$logs/programs"
go build -o "$logs/testcluster" ./test/testcluster
race=()
if [ "${RACE:-on}" = on ]; then race=(-race); export CGO_ENABLED=1; fi

# go test -exec calls this with the test's program, in the package's directory.
cat >"$logs/keep" <<'K'
#!/bin/sh
name=$(echo "${PWD#"$FLAKES_ROOT"/}" | tr / -)
cp "$1" "$FLAKES_DIR/$name" && echo "$PWD" >"$FLAKES_DIR/$name.dir"
K
chmod +x "$logs/keep"
step "compiling the tests"
FLAKES_ROOT="$PWD" FLAKES_DIR="$logs/programs" watched "$logs/compile.log" "go test" \
  go test "${race[@]}" -vet=off -count=1 -exec "$logs/keep" "$@" || die "the tests do not compile: see $logs/compile.log"

loops=()
trap 'kill "${loops[@]}" 2>/dev/null || true' EXIT
for _ in $(seq "${LOAD:-$(nproc)}"); do
  # Ends with this script, also if it is killed.
  (while kill -0 $$ 2>/dev/null; do for ((i = 0; i < 1000000; i++)); do :; done; done) &
  loops+=($!)
done

# one RUN PROGRAM [FLAG]: runs a test's program and writes its events.
one() {
  local name
  name=$(basename "$2")
  cd "$(cat "$2.dir")" && go tool test2json -t -p "$name" "$2" -test.v=test2json -test.paniconexit0 -test.timeout=40m "${@:3}" \
    >"$logs/$1/$name${3:+${3%%=*}}.json" 2>&1 || true
}
export -f one
export logs
for run in $(seq "$runs"); do
  mkdir -p "$logs/$run"
  start=$SECONDS
  # Largest first: they take the longest.
  find "$logs/programs" -type f ! -name '*.dir' -printf '%s %p\n' | sort -rn | cut -d' ' -f2 |
    sed -E 's#^(.*/test-integration)$#\1 -test.run='"$LONG_TESTS"'\n\1 -test.skip='"$LONG_TESTS"'#' |
    "$logs/testcluster" xargs -P "$(($(nproc) + 2))" -L 1 bash -c 'one "$@"' one "$run"
  jq -r 'select(.Action == "fail") | .Package + " " + (.Test // "(package)")' "$logs/$run"/*.json | sort -u >"$logs/$run.failed"
  step "run $run of $runs: $((SECONDS - start)) s, load $(cut -d' ' -f1 /proc/loadavg), $(wc -l <"$logs/$run.failed") failed"
  [ -s "$logs/$run.failed" ] || rm -r "${logs:?}/$run"
done

echo
echo "Failures in $runs runs:"
cat "$logs"/*.failed | sort | uniq -c | sort -rn | grep . || echo "  none"
[ -z "$(cat "$logs"/*.failed)" ]
