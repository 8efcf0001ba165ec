#!/usr/bin/env bash
# cluster-test.sh: tests the Helm chart on the cluster of the current KUBECONFIG with a real Coder: install, upgrade
# to three Deployments, rollback, uninstall, install again, and remove everything. It uninstalls with the commands of
# docs/how-to/uninstall.md. The image must be available to the cluster, and the operator not installed.
# E2E_POSTGRES_URL is the PostgreSQL of that cluster; the script creates a database there. Takes two to three minutes.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
PATH="$BIN:$TOOLS_DIR:$PATH"
[ -n "${KUBECONFIG:-}" ] || die "KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster"
[ -n "${E2E_POSTGRES_URL:-}" ] || die "E2E_POSTGRES_URL is not set; hack/cluster/env.sh prints it as DEMO_POSTGRES_URL"
hack/tools.sh helm
LOG="$LOGS/chart-test.log"
mkdir -p "$(dirname "$LOG")"
: >"$LOG"
NS=coder-system

quiet() { "$@" >>"$LOG" 2>&1; }
fail() {
  {
    helm -n $NS history coder-k8s
    kubectl -n $NS get pods -o wide
    kubectl get ccp -A
    kubectl -n $NS get events --sort-by=.lastTimestamp | tail -n 10
  } 2>&1 | cut -c1-300 >&2 || true
  tail_of "$LOG"
  die "$1"
}
release() { # verb, arguments of helm
  quiet helm "$1" --namespace $NS --timeout 10m "${@:2}" || fail "helm $* failed"
}

# works: the release passes its own test, and Coder is Ready with the same pod.
coder_pods() { kubectl -n coder get pods -l app.kubernetes.io/instance=coder -o 'jsonpath={.items[*].metadata.uid}'; }
ready() { kubectl -n coder wait --for=condition=Ready ccp/coder --timeout=5s; }
works() {
  release test coder-k8s
  until_ok 60 "the control plane" ready || fail "$1: the control plane is not Ready"
  [ "$(coder_pods)" = "$pods" ] || fail "$1: Coder's pod was replaced: $pods, now $(coder_pods)"
  step "$1: helm test passes, the control plane is Ready, Coder's pod is the same"
}

# documented HEADING: runs the commands of a section of the page, each of which ends after ten minutes at the latest.
documented() {
  local commands
  commands=$(awk -v heading="## $1" '/^## /{on = $0 == heading} /^```/{code = !code; if (!code && on) exit; next} on && code' docs/how-to/uninstall.md)
  [ -n "$commands" ] || fail "docs/how-to/uninstall.md has no commands for: $1"
  quiet timeout 600 bash -euxc "$commands" || fail "$1: the commands of docs/how-to/uninstall.md failed"
}

# left: what there is of the release. Kubernetes deletes pods after their owners.
left() {
  kubectl get deployment,serviceaccount,service,pod,clusterrole,clusterrolebinding,role,rolebinding,apiservice,flowschema,priorityclass \
    -A -l app.kubernetes.io/name=coder-k8s -o name
  kubectl get validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding \
    -l app.kubernetes.io/name=coder-k8s -o name
}
none() { local found; found=$("$@") && [ -z "$found" ]; } # command that prints what there is
gone() { until_ok 60 "the release to be gone" none left || fail "$1: left behind: $(left)"; }

database() { echo "${E2E_POSTGRES_URL/\/\?//$1?}"; }
quiet psql "$(database postgres)" -c 'DROP DATABASE IF EXISTS charttest WITH (FORCE)' -c 'CREATE DATABASE charttest' ||
  fail "the database charttest could not be made"
quiet kubectl create namespace $NS || fail "namespace $NS cannot be made"
quiet kubectl label namespace $NS pod-security.kubernetes.io/enforce=restricted || fail "namespace $NS cannot be labelled"
release install coder-k8s charts/coder-k8s --wait
quiet kubectl apply -f config/samples/namespace.yaml || fail "namespace coder cannot be made"
quiet kubectl -n coder create secret generic coder-db --from-literal="url=$(database charttest)" || fail "the database's Secret cannot be made"
until_ok 60 "the kind" quiet kubectl apply -f "$(control_plane)" || fail "the sample cannot be applied"
quiet kubectl -n coder wait --for=condition=Ready ccp/coder --timeout=600s || fail "the control plane did not become Ready"
pods=$(coder_pods)
[ -n "$pods" ] || fail "there is no pod of Coder"
works "helm install"

release upgrade coder-k8s charts/coder-k8s --wait --set mode=split --set networkPolicy.enabled=true
three() { [ "$(kubectl -n $NS get deployments -o 'jsonpath={.items[*].metadata.name}')" = "coder-k8s-apiserver coder-k8s-controller coder-k8s-mcp" ]; }
until_ok 60 "the Deployment of before to be gone" three || fail "after the upgrade there are not three Deployments"
works "helm upgrade to three Deployments"

release rollback coder-k8s 1 --wait
works "helm rollback"

uid() { kubectl -n coder get ccp coder -o 'jsonpath={.metadata.uid}'; }
before=$(uid)
documented "Keep the Coders running"
gone "helm uninstall"
[ "$(coder_pods)" = "$pods" ] || fail "helm uninstall: Coder's pod was replaced or is gone"
[ "$(uid)" = "$before" ] || fail "helm uninstall: the control plane is gone"
step "helm uninstall: Coder runs on, and its object waits for the next installation"

release install coder-k8s charts/coder-k8s --wait
works "helm install again"
[ "$(uid)" = "$before" ] || fail "helm install again: the control plane is another one"

documented "Remove the Coders too"
gone "everything removed"
# A pod of Coder shuts down gracefully before it ends.
coders() { kubectl get deployments,replicasets,pods,services,serviceaccounts,secrets,roles,rolebindings -A -l app.kubernetes.io/managed-by=coder-k8s -o name; }
until_ok 90 "Coder's pod to end" none coders || fail "everything removed: there is still $(coders)"
definitions() { kubectl get crds -o name | grep '[.]coder[.]com$' || true; }
none definitions || fail "everything removed: there is still $(definitions)"
quiet kubectl delete namespace coder --timeout=300s || fail "the namespace coder cannot be deleted"
step "the Coder, the release, its definitions and its namespace are removed: nothing is left"
