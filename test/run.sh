#!/usr/bin/env bash
# run.sh [PACKAGE...]: the unit and integration tests. Two groups: "concurrent" are those with the race detector; "sequential"
# are the packages for which it has nothing to find (the variable below), without it, and, also without it, the tests of other
# packages that kubetest.SkipWithRace skips. With packages as arguments only their tests run. TEST_PART is concurrent,
# sequential, compile (only compile for concurrent) or all, the default. With TEST_RACE=off the race detector is not used: that
# takes half of the time, without what must be compiled for it. Missing programs, such as etcd and kube-apiserver, are built
# first, if KUBEBUILDER_ASSETS does not say where they are. That first time the race detector is not used either, because all
# packages would be compiled once more; TEST_RACE=on uses it nevertheless. TEST_RESULTS is a directory for the events of the
# runner (test.json). go vet is part of make lint.
set -euo pipefail
. "$(dirname "$0")/../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
first=""
[ -n "${KUBEBUILDER_ASSETS:-}" ] || [ -e "$BIN/.apiserver.built" ] || first=1
. test/environment.sh
if [ "$first" ] && [ -z "${TEST_RACE:-}" ]; then
  step "the programs had to be built first, so the tests run without the race detector; the next make test uses it"
  TEST_RACE=off
fi
results="${TEST_RESULTS:-$CACHE/logs/test}"
mkdir -p "$results"
shared=() # What starts the kube-apiserver that packages share.
# Packages that start no goroutine, and whose tests, but for one of controlplane, call the product's functions one after
# another: the race detector has nothing to find. The controllers run at the same time in test/integration, with it.
sequential=()
part="${TEST_PART:-all}"
[[ "$part" = @(all|concurrent|sequential|compile) ]] || die "TEST_PART is \"$part\", and must be all, concurrent, sequential or compile"
if [ $# = 0 ]; then
  shared=("$results/testcluster-$part")
  go build -o "${shared[0]}" ./test/testcluster
  # Plain assignments, so that an error of go list ends the script and no package is left out.
  names=$(go list ./api/... ./internal/{export,installation,migrate,podproblem,supportbundle} \
    ./internal/controllers/{backup,controlplane,ensure,provisioner,resources,workspaceproxy}/... \
    ./test/{admission,chart,docs,manifests,monitoring,release})
  mapfile -t sequential <<<"$names"
  names=$(go list ./... | grep -vxF -e "$names" -e "$(go list ./test/integration)")
  mapfile -t others <<<"$names"
  # The tests of the other packages that are skipped with the race detector: those with such a line.
  skipped='\b(EachStep|SkipWithRace|ensuretest\.Crash)\('
  files=$(git grep -lE "$skipped" -- '*_test.go')
  mapfile -t simulations < <(xargs -n 1 dirname <<<"$files" | sort -u | sed "s|^|$(go list -m)/|" | grep -vxF "$(printf '%s\n' "${sequential[@]}")")
  names=$(git grep -hE "^(package|func) |$skipped" -- '*_test.go' | awk '/^package/ { name = ""; next } /^func/ { name = $2; sub(/\(.*/, "", name); next } name { print "^" name "$" }' | sort -u | paste -sd '|')
  # The longest tests first.
  set -- ./internal/apiserver/... ./internal/coderd "${others[@]}"
fi
gotestsum=("$TOOLS_DIR/gotestsum" --format pkgname --format-hide-empty-pkg)
flags=(-vet=off -count=1 -timeout 60m -p "$(($(nproc) + 2))")
status=0
race=-race
[ "${TEST_RACE:-on}" = on ] || race=-race=false
[ "$race" != -race ] || export CGO_ENABLED=1
# Compiles every package and its tests, and links nothing. Otherwise the go commands below, which run at the same time, would
# compile the same packages.
compile() {
  echo "packages in all: $(go list "$race" -deps -test ./... | wc -l)"
  go list -v "$race" -export -deps -test -f '{{with .Error}}{{.}}{{end}}' ./...
}
if [ ${#shared[@]} != 0 ] && [ "$part" != sequential ]; then
  step "compiling the tests $race: no time if nothing changed, most of the time of this command if nothing is compiled"
  : >"$results/compiled.log"
  PROGRESS=go_progress watched "$results/compiled.log" "compiling the tests" compile || die "compiling the tests failed: see $results/compiled.log"
fi
[ "$part" != compile ] || exit 0
if [ "$part" != sequential ]; then
  step "go test $race"
  halves=()
  trap 'kill "${halves[@]}" 2>/dev/null || true' EXIT
  # integration NAME FLAG...: starts one of the two halves of test/integration. Both mostly wait, and take the longest, so
  # they get the processors first.
  integration() {
    "${gotestsum[@]}" --jsonfile "$results/$1.json" -- "$race" "${flags[@]}" "${@:2}" ./test/integration >"$results/$1.log" 2>&1 &
    halves+=($!)
  }
  if [ ${#shared[@]} != 0 ]; then
    integration integration-long -run "$LONG_TESTS"
    integration integration -skip "$LONG_TESTS"
  fi
  nice "${shared[@]}" "${gotestsum[@]}" --jsonfile "$results/test.json" -- "$race" "${flags[@]}" "$@" || status=$?
  for half in "${halves[@]}"; do wait "$half" || status=$?; done
  trap - EXIT
  [ ${#halves[@]} = 0 ] || cat "$results/integration-long.log" "$results/integration.log"
fi
export CGO_ENABLED=0
if [ ${#shared[@]} != 0 ] && [ "$part" != concurrent ]; then
  # The tools that assemble images and releases are separate modules.
  for module in image release; do
    step "go test hack/$module"
    go test -C "hack/$module" -vet=off -count=1 ./... || status=$?
  done
  step "go test without the race detector: ${sequential[*]}"
  "${shared[@]}" "${gotestsum[@]}" --jsonfile "$results/sequential.json" -- "${flags[@]}" "${sequential[@]}" || status=$?
  if [ "$race" = -race ]; then
    "${shared[@]}" "${gotestsum[@]}" --jsonfile "$results/simulations.json" -- "${flags[@]}" -run "$names" "${simulations[@]}" || status=$?
  fi
fi
exit "$status"
