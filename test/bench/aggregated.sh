#!/bin/bash
# aggregated.sh [COUNT]: measures the aggregated API with a real Coder with COUNT workspaces (default: 10000), on a
# separate real cluster that is removed at the end; needs root. Coder builds one workspace, the others are copies of
# its rows in Coder's database. Prints each figure with its reference from the same run. BENCH_KEEP=1 keeps the
# cluster; on a kept cluster, BENCH_PHASES=reads,builds measures only some of the phases (see
# test/bench/aggregated/main.go).
set -euo pipefail
export CLUSTER_NAME="${CLUSTER_NAME:-bench}"
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
count="${1:-10000}"
[ "$count" -ge 100 ] 2>/dev/null || die "COUNT \"$count\" must be a number from 100"

finish() {
  local rc=$?
  trap - EXIT
  rm -rf "$work"
  [ -n "${BENCH_KEEP:-}" ] || QUIET=1 "$HERE/down.sh" >/dev/null 2>&1 || rc=1
  exit $rc
}
work=$(mktemp -d)
trap finish EXIT

"$HERE/up.sh"
log="$CACHE/logs/build/bench.log"
: >"$log"
watched "$log" "the program that measures" go build -o "$work/aggregated" ./test/bench/aggregated || die "the program that measures could not be built: see $log"
export KUBECONFIG="$KUBECONFIG_ADMIN" PATH="$BIN:$PATH"
database="postgres://postgres@$(in_url "$HOST_IP"):$PG_PORT/coder?sslmode=disable"

# The operator, the control plane, a template and a workspace.
applied() { kubectl apply "$@" >>"$log" 2>&1; }
of() { kubectl -n coder get "$1" -o "jsonpath=$2" 2>/dev/null; }
ready() { [ "$(of "$1" '{.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
runs() { [ "$(of "$1" '{.status.phase}')" = Running ]; }
if [ -z "${BENCH_PHASES:-}" ]; then
  watched "$log" "make build" make --no-print-directory build || die "the operator could not be built: see $log"
  watched "$log" "image" hack/image/build.sh bin/coder-k8s bin/coder-k8s.tar || die "the image could not be assembled: see $log"
  "$HERE/load-image.sh" bin/coder-k8s.tar
  # The benchmark measures one replica.
  hack/manifests.sh default | sed 's/^  replicas: 2$/  replicas: 1/' | applied -f - || { tail_of "$log"; die "the operator could not be installed: see $log"; }
  kubectl -n coder-system rollout status deployment/coder-k8s --timeout=180s >>"$log"
  until_ok 60 "the aggregated API" kubectl wait --for=condition=Available apiservice/v1alpha1.aggregation.coder.com --timeout=1s ||
    die "the aggregated API did not become available"
  applied -f config/samples/namespace.yaml
  kubectl -n coder create secret generic coder-db --from-literal="url=$database" --dry-run=client -o yaml | applied -f -
  until_ok 30 "the API of control planes" applied -f "$(control_plane)" || die "the control plane was refused: see $log"
  until_ok 300 "the control plane" ready codercontrolplane/coder || die "the control plane was not ready within 5 min"
  until_ok 60 "the template's API" applied -f test/bench/aggregated/sample.yaml || { tail_of "$log"; die "the template was refused"; }
  until_ok 120 "the workspace" runs coderworkspace/coder.admin.hello || die "the workspace did not run within 2 min"
  step "operator installed, Coder ready, one workspace built"
fi

# The account that reads the metrics and connects directly to the pod.
kubectl create namespace bench --dry-run=client -o yaml | applied -f -
for role in coder-k8s-metrics-reader coder-k8s-view; do
  kubectl create clusterrolebinding "bench-$role" --clusterrole="$role" --serviceaccount=bench:default --dry-run=client -o yaml | applied -f -
done
(umask 077 && kubectl -n bench create token default --duration=4h >"$work/token")
"$work/aggregated" -count "$count" -database "$database" -cgroup "$CGROUP_ROOT" -account-token-file "$work/token" \
  -coder "http://$(of service/coder '{.spec.clusterIP}')" -phases "${BENCH_PHASES:-}"
