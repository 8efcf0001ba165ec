#!/usr/bin/env bash
# cluster-test.sh [TEST FLAG...]: a real Prometheus scrapes the operator of the cluster of $KUBECONFIG, as
# the ServiceMonitor of the chart says, and answers every query of the alerts and of the dashboard. The operator's
# image has to be on the node; the operator and the samples are installed where they are not there, with the database
# "coder" of the PostgreSQL of $E2E_POSTGRES_URL or $DEMO_POSTGRES_URL (hack/cluster/env.sh prints that). The tests are
# compiled, unless MONITORING_TEST names the program.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
[ -n "${KUBECONFIG:-}" ] || die "KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster"
export PATH="$BIN:$PATH" TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
test/monitoring/build.sh
kubectl="$BIN/kubectl"
postgres="${E2E_POSTGRES_URL:-${DEMO_POSTGRES_URL:-}}"
log="$LOGS/monitoring-install.log"
mkdir -p "$(dirname "$log")"
: >"$log"

control_plane_is_ready() {
  "$kubectl" -n coder wait --for=condition=Ready codercontrolplane/coder --timeout=5s
}

install() {
  hack/manifests.sh default | "$kubectl" apply -f -
  "$kubectl" apply -f config/samples/namespace.yaml
  if ! "$kubectl" -n coder get secret coder-db; then
    "$kubectl" -n coder create secret generic coder-db --from-literal="url=${postgres/\/\?//coder?}"
  fi
  "$kubectl" -n coder-system rollout status deployment/coder-k8s --timeout=300s
  "$kubectl" apply -f "$(control_plane)"
}

if ! control_plane_is_ready >>"$log" 2>&1; then
  step "installing the operator and a control plane"
  [ -n "$postgres" ] || die "DEMO_POSTGRES_URL is not set; hack/cluster/env.sh prints that of a cluster"
  install >>"$log" 2>&1 || { tail_of "$log"; die "the operator could not be installed: see $log"; }
  until_ok 120 "the control plane" control_plane_is_ready || die "CoderControlPlane coder/coder is not Ready"
fi
step "the queries of alerts and dashboard, against a real Prometheus"
program="${MONITORING_TEST:-}"
if [ -z "$program" ]; then
  program=$(mktemp)
  trap 'rm -f "$program"' EXIT
  go test -c -tags "e2e,$OPERATOR_TAGS" -o "$program" ./test/monitoring
fi
cd test/monitoring
"$program" -test.timeout 15m -test.v -test.run 'OnTheCluster' "$@"
