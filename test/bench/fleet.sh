#!/bin/bash
# fleet.sh [COUNT...]: measures the cost of COUNT control planes without replicas (default: 200 and 1000), on a
# separate real cluster that is removed at the end; needs root. Prints the figures with those of the public
# predecessor, which were measured in the same way on the same type of machine (2 cores). BENCH_KEEP=1 keeps the
# cluster.
set -euo pipefail
export CLUSTER_NAME="${CLUSTER_NAME:-bench}" CLUSTER_SVC_CIDR="${CLUSTER_SVC_CIDR:-10.204.0.0/20}"
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
[ $# -gt 0 ] || set -- 200 1000

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
watched "$log" "make build" make --no-print-directory build || die "the operator could not be built: see $log"
watched "$log" "image" hack/image/build.sh bin/coder-k8s bin/coder-k8s.tar || die "the image could not be assembled: see $log"
watched "$log" "fleet" go build -o "$work/fleet" ./test/bench/fleet || die "the program that measures could not be built: see $log"
"$HERE/load-image.sh" bin/coder-k8s.tar
export KUBECONFIG="$KUBECONFIG_ADMIN" PATH="$BIN:$PATH"
# The benchmark measures one replica.
hack/manifests.sh default | sed 's/^  replicas: 2$/  replicas: 1/' | kubectl apply -f - >>"$log"
kubectl -n coder-system rollout status deployment/coder-k8s --timeout=120s >>"$log"
kubectl create namespace fleet >>"$log"

# The operator's process on the node, its metrics, and permission to read them.
pid=""
for candidate in $(pgrep -x coder-k8s); do
  if tr '\0' '\n' <"/proc/$candidate/cgroup" | grep -q "$CGROUP_ROOT"; then pid=$candidate; fi
done
[ -n "$pid" ] || die "the operator's process was not found"
apiserver=""
for candidate in $(pgrep -x kube-apiserver); do
  if tr '\0' '\n' <"/proc/$candidate/environ" | grep -qxF "$MARK"; then apiserver=$candidate; fi
done
[ -n "$apiserver" ] || die "the process of kube-apiserver was not found"
address=$(kubectl -n coder-system get pod -l app.kubernetes.io/name=coder-k8s -o 'jsonpath={.items[0].status.podIP}')
kubectl create clusterrolebinding fleet --clusterrole=coder-k8s-metrics-reader --serviceaccount=fleet:default >>"$log"
(umask 077 && kubectl -n fleet create token default --duration=2h >"$work/token")
step "operator installed: $(awk '/VmRSS/ {printf "%.0f MB", $2 * 1024 / 1e6}' "/proc/$pid/status") before the first control plane"

from=0
for count in "$@"; do
  step "$count control planes"
  "$work/fleet" -metrics "https://$address:8443/metrics" -token-file "$work/token" -pid "$pid" \
    -apiserver-pid "$apiserver" -from "$from" -to "$count" >"$work/$count"
  from=$count
done
step "beside the predecessor"
printf '%-42s %14s' figure "predecessor200"
printf ' %10s' "$@"
echo
declare -A theirs=([apply_to_status_seconds]=41.7 [changes_of_objects_at_rest_per_minute]=400 [resident_megabytes]=99)
while read -r name _; do
  printf '%-42s %14s' "$name" "${theirs[$name]:--}"
  for count in "$@"; do printf ' %10s' "$(awk -v n="$name" '$1 == n {print $2}' "$work/$count")"; done
  echo
done <"$work/$1"
