#!/usr/bin/env bash
# certmanager.sh [build | run | test]: cert-manager's own controllers against a cluster.
#   build  builds them from the Go module proxy, and fetches their CRDs, into $CACHE/peers.
#   run    builds, applies the CRDs to $KUBECONFIG and runs the controllers in the foreground, to try it by hand.
#   test   builds, and tries the installation cert-manager on $KUBECONFIG, which must know the image and have no operator: the
#          certificates are made, injected and served, and renewed while everything goes on. Takes three minutes.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
PATH="$BIN:$PATH"
PEERS="$CACHE/peers"
CRDS="$PEERS/cert-manager-crds"
LOG="$CACHE/logs/certmanager.log"

build() {
  local from log="$CACHE/logs/build/certmanager.log"
  mkdir -p "$CRDS" "$(dirname "$log")"
  (cd test/peers/certmanager && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$PEERS/certmanager.new" .) >"$log" 2>&1 ||
    { tail_of "$log"; die "test/peers/certmanager could not be built: see $log"; }
  mv "$PEERS/certmanager.new" "$PEERS/certmanager"
  from=$(cd test/peers/certmanager && go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)
  install -m 644 "$from"/deploy/crds/*.yaml "$CRDS/"
}

quiet() { "$@" >>"$LOG" 2>&1; }
system() { kubectl -n coder-system "$@"; }
available() { kubectl wait --for=condition=Available apiservice/v1alpha1.aggregation.coder.com --timeout=1s; }
answers() { kubectl get coderworkspaces -A >/dev/null; }
secret_value() { system get secret "$1" -o "jsonpath={.data['$2']}" | base64 -d; }
serial() { openssl x509 -noout -serial; }
# Prints the certificate that a pod serves at a port: SERVICE:PORT resolves to one of the Service's endpoints.
served() { # Service, port
  local address
  address=$(system get endpointslices -l "kubernetes.io/service-name=$1" -o 'jsonpath={.items[0].endpoints[0].addresses[0]}')
  openssl s_client -connect "$address:$2" -servername "$1.coder-system.svc" </dev/null 2>/dev/null | serial
}
# serves SERVICE PORT SECRET: it serves the current certificate of the Secret.
serves() { [ "$(served "$1" "$2")" = "$(secret_value "$3" 'tls\.crt' | serial)" ]; }
injected() {
  [ "$(kubectl get apiservice v1alpha1.aggregation.coder.com -o 'jsonpath={.spec.caBundle}' | base64 -d)" = \
    "$(secret_value coder-k8s-apiserver-cert 'ca\.crt')" ]
}
pods() { system get pods -o 'jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[0].restartCount} {end}'; }

# renewed CERTIFICATE: makes cert-manager issue it again, like cmctl renew, and waits until it has.
renewed() {
  local before now secret="$1-cert"
  before=$(secret_value "$secret" 'tls\.crt' | serial)
  now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  quiet system patch certificate "$1" --subresource=status --type=json -p '[{"op": "add", "path": "/status/conditions/-", "value":
    {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renewed by a test", "lastTransitionTime": "'"$now"'"}}]'
  different() { [ "$(secret_value "$secret" 'tls\.crt' | serial)" != "$before" ]; }
  until_ok 60 "a new certificate in $secret" different || die "cert-manager did not renew $1: see $LOG"
}

try() {
  local controllers before
  : >"$LOG"
  quiet kubectl apply --server-side -f "$CRDS"
  quiet kubectl wait --for=condition=Established crd/certificates.cert-manager.io --timeout=30s
  "$PEERS/certmanager" >>"$LOG" 2>&1 &
  controllers=$!
  # shellcheck disable=SC2064
  trap "kill $controllers 2>/dev/null || true" EXIT
  hack/manifests.sh cert-manager | quiet kubectl apply -f - || { tail_of "$LOG"; die "the operator could not be installed: see $LOG"; }
  until_ok 180 "the operator" system rollout status deployment/coder-k8s --timeout=1s || { tail_of "$LOG"; die "the operator did not become available"; }
  until_ok 60 "the aggregated API" available || die "the APIService did not become Available"
  until_ok 30 "the injected CA" injected || die "cert-manager did not inject the CA into the APIService"
  serves coder-k8s-apiserver 6443 coder-k8s-apiserver-cert || die "the aggregated API serves another certificate"
  serves coder-k8s-metrics 8443 coder-k8s-metrics-cert || die "the metrics are served with another certificate"
  ! system get secret coder-k8s-apiserver-tls >>"$LOG" 2>&1 || die "the operator made a certificate of its own"
  [ "$(kubectl get apiservice v1alpha1.aggregation.coder.com -o jsonpath='{.metadata.managedFields[*].manager}' | grep -c coder-k8s-apiserver-cert)" = 0 ] ||
    die "the operator wrote to the APIService"
  step "made, injected and served: two certificates of cert-manager"

  before=$(pods)
  renewed coder-k8s-apiserver
  renewed coder-k8s-metrics
  step "renewed; the kubelet brings files to pods within two minutes"
  until_ok 180 "the new certificate of the aggregated API" reloaded coder-k8s-apiserver 6443 || die "the aggregated API still serves the old certificate"
  until_ok 60 "the new certificate of the metrics" serves coder-k8s-metrics 8443 coder-k8s-metrics-cert || die "the metrics are still served with the old certificate"
  answers || die "the aggregated API does not answer with the new certificate"
  [ "$(pods)" = "$before" ] || die "pods were restarted: $before, now $(pods)"
  step "served without a restart, and no request failed"

  hack/manifests.sh cert-manager | quiet kubectl delete -f - --timeout=90s || { tail_of "$LOG"; die "the operator could not be removed: see $LOG"; }
  quiet kubectl delete -f "$CRDS" --timeout=60s
  step "removed"
}

# reloaded SERVICE PORT: whether the new certificate is served; a request that fails meanwhile ends the test.
reloaded() {
  answers || die "a request failed while the certificate was renewed"
  serves "$1" "$2" "$1-cert"
}

case "${1:-build}" in
  build)
    build
    echo "$PEERS/certmanager and $CRDS are there; with KUBECONFIG set: $0 test, or $0 run" ;;
  run | test)
    [ -n "${KUBECONFIG:-}" ] || die "KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster"
    mkdir -p "$(dirname "$LOG")"
    build
    if [ "$1" = test ]; then
      try
      exit
    fi
    kubectl apply --server-side -f "$CRDS"
    exec "$PEERS/certmanager" ;;
  *) die "certmanager.sh knows build, run and test, not \"$1\"" ;;
esac
