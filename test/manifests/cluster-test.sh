#!/usr/bin/env bash
# cluster-test.sh: tests the variants of the installation on the cluster of the current KUBECONFIG, one after the
# other, with a real Coder that must not change. The image must be available to the cluster, and the operator not
# installed. E2E_POSTGRES_URL is the PostgreSQL of that cluster; the script creates a database there. Takes two to
# four minutes.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
PATH="$BIN:$PATH"
[ -n "${KUBECONFIG:-}" ] || die "KUBECONFIG is not set; hack/cluster/env.sh prints that of a cluster"
[ -n "${E2E_POSTGRES_URL:-}" ] || die "E2E_POSTGRES_URL is not set; hack/cluster/env.sh prints it as DEMO_POSTGRES_URL"
LOG="$LOGS/install-test.log"
mkdir -p "$(dirname "$LOG")"
: >"$LOG"

quiet() { "$@" >>"$LOG" 2>&1; }
fail() {
  {
    kubectl get pods,pdb,networkpolicies -n coder-system -o wide
    kubectl get ccp,cws,ctpl -A
    kubectl get apiservice v1alpha1.aggregation.coder.com -o jsonpath='{.status.conditions}'
    kubectl get events -n coder-system --sort-by=.lastTimestamp | tail -n 10
  } 2>&1 | cut -c1-300 >&2 || true
  tail_of "$LOG"
  die "$1"
}

# installed "INSTALLATION..." DEPLOYMENT...: applies it and waits until everything works.
installed() {
  local installation="$1" deployment
  shift
  # shellcheck disable=SC2086
  hack/manifests.sh $installation | quiet kubectl apply -f - || fail "the installation $installation cannot be applied"
  for deployment in "$@"; do
    until_ok 120 "$deployment" kubectl -n coder-system rollout status "deployment/$deployment" --timeout=5s ||
      fail "$installation: Deployment $deployment did not become available"
  done
  until_ok 60 "the aggregated API" kubectl wait --for=condition=Available apiservice/v1alpha1.aggregation.coder.com --timeout=5s ||
    fail "$installation: the APIService did not become Available"
  restricted "$installation"
  step "installed: $installation ($*)"
}

# The namespace enforces the level restricted, so running pods comply with it.
restricted() {
  local level
  level=$(kubectl get namespace coder-system -o 'jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}')
  [ "$level" = restricted ] || fail "$1: coder-system enforces \"$level\", not restricted"
}

# Not grep -q, which ends before it has read everything, so that the writer would fail.
listed() { kubectl -n coder get coderworkspaces -o name | grep coder.admin.hello >/dev/null; }
answered() { hack/demo/mcp-call.sh list_control_planes | grep '"structuredContent":{.*"items":\[{"name":"coder"' >/dev/null; }
# A pod's name is that of its Deployment, and two parts more; coder-k8s is the beginning of another Deployment's name too.
leads() { [[ "$(kubectl -n coder-system get lease coder-k8s-controller.coder.com -o 'jsonpath={.spec.holderIdentity}')" =~ ^"$1"-[0-9a-z]+-[0-9a-z]+_ ]]; }

# works HOLDER: Coder is Ready, by a leader of this Deployment; its workspace is listed, and MCP answers.
works() {
  until_ok 60 "a leader of $1" leads "$1" || fail "no pod of $1 leads the controllers"
  quiet kubectl -n coder wait --for=condition=Ready ccp/coder --timeout=600s || fail "the control plane is not Ready"
  until_ok 90 "the workspace in the list" listed || fail "kubectl get coderworkspaces does not list the workspace"
  until_ok 30 "the MCP server" answered || fail "the MCP server does not answer a caller"
  step "works: control plane Ready, workspace listed, MCP answers"
}

# same: Coder's pod is the one that it was at the beginning.
coder_pods() { kubectl -n coder get pods -l app.kubernetes.io/instance=coder -o 'jsonpath={.items[*].metadata.uid}'; }
same() { [ "$(coder_pods)" = "$pods" ] || fail "Coder's pod was replaced: $pods, now $(coder_pods)"; }

may() { # ServiceAccount, arguments of kubectl auth can-i
  kubectl auth can-i "${@:2}" --as="system:serviceaccount:coder-system:$1" >>"$LOG" 2>&1
}

# Three Deployments, two replicas each, in a namespace that is closed.
database() { echo "${E2E_POSTGRES_URL/\/\?//$1?}"; }
quiet psql "$(database postgres)" -c 'DROP DATABASE IF EXISTS installtest WITH (FORCE)' -c 'CREATE DATABASE installtest' ||
  fail "the database installtest could not be made"
installed "split-ha network-policies" coder-k8s-controller coder-k8s-apiserver coder-k8s-mcp
# The network enforces the policies. They name no namespace for this machine, which calls the MCP server below.
quiet kubectl apply -f - <<Y || fail "the policy for this machine cannot be made"
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "this-machine", "namespace": "coder-system", "labels": {"app.kubernetes.io/name": "coder-k8s"}},
 "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": {"cidr": "$HOST_IP/$(if [[ $HOST_IP == *:* ]]; then echo 128; else echo 32; fi)"}}]}]}}
Y
quiet kubectl apply -f config/samples/namespace.yaml -f hack/demo/user.yaml || fail "the namespace and the user cannot be made"
quiet kubectl -n coder create secret generic coder-db --from-literal="url=$(database installtest)" || fail "the database's Secret cannot be made"
until_ok 60 "the kind" quiet kubectl apply -f "$(control_plane)" || fail "codercontrolplane cannot be applied"
quiet kubectl -n coder wait --for=condition=Ready ccp/coder --timeout=600s || fail "the control plane did not become Ready"
for sample in codertemplate coderworkspace; do
  until_ok 90 "$sample" quiet kubectl apply -f "config/samples/$sample.yaml" || fail "$sample cannot be applied"
done
works coder-k8s-controller
pods=$(coder_pods)
[ -n "$pods" ] || fail "there is no pod of Coder"
may coder-k8s-controller list secrets -A || fail "the controllers may not list Secrets"
for account in coder-k8s-apiserver coder-k8s-mcp; do
  ! may "$account" list secrets -n coder || fail "$account may list Secrets"
  ! may "$account" create pods -n coder || fail "$account may create pods"
done

# For one namespace, in one Deployment: delete the additional objects of the split installation manually.
split=(deployment,serviceaccount,pdb,networkpolicy -l "app.kubernetes.io/component in (controller, apiserver, mcp)")
installed namespaced coder-k8s
quiet kubectl -n coder-system delete "${split[@]}" || fail "the split installation cannot be deleted"
quiet kubectl -n coder-system delete networkpolicy -l app.kubernetes.io/name=coder-k8s || fail "what surrounds the split installation cannot be deleted"
quiet kubectl delete clusterrolebinding coder-k8s-controller coder-k8s-apiserver || fail "the split installation's rights cannot be deleted"
works coder-k8s
same
# kube-apiserver sees the removal of a permission with a delay.
may_not() { ! may "$@"; }
until_ok 30 "the rights to be gone" may_not coder-k8s list secrets -n default || fail "the operator may list Secrets where it does not watch"

# The default: while the leader ends, the other replica responds. (ha requires a second node.)
installed default coder-k8s
quiet kubectl -n coder delete rolebinding coder-k8s-controller coder-k8s-apiserver || fail "the rights in namespace coder cannot be deleted"
quiet kubectl delete clusterrole,clusterrolebinding coder-k8s-apiserver-cluster || fail "the rights of before cannot be deleted"
works coder-k8s
same
# Two pods, both ready, and none terminating: there are more pods while one terminates.
two() {
  [ "$(kubectl -n coder-system get pods -o 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}')" = "True True " ]
}
until_ok 60 "the pods of before to end" two || fail "there are not two pods"
# One of the deleted pods may have been the leader: the Lease may have its name until it expires, and no holder for a
# moment after that.
leader() { kubectl -n coder-system get lease coder-k8s-controller.coder.com -o 'jsonpath={.spec.holderIdentity}' | sed 's/_.*//'; }
one_leads() { leads coder-k8s && kubectl -n coder-system get pod "$(leader)"; }
until_ok 60 "a leader among the two" one_leads || fail "no replica leads"
until_ok 60 "the workspace in the list" listed || fail "the workspace is not listed before a replica goes"
quiet kubectl -n coder-system delete pod "$(leader)" --wait=false ||
  fail "the replica that leads cannot be deleted"
for _ in 1 2 3 4 5; do listed || fail "the workspace is not listed while a replica goes"; done
works coder-k8s

# After the removal, nothing must be left.
for sample in coderworkspace codertemplate; do
  quiet kubectl delete -f "config/samples/$sample.yaml" --timeout=300s || fail "the sample $sample cannot be deleted"
done
quiet kubectl -n coder delete ccp coder --timeout=300s || fail "the control plane cannot be deleted"
hack/manifests.sh default | quiet kubectl delete -f - --ignore-not-found --timeout=300s || fail "kubectl delete -f install.yaml failed"
quiet kubectl delete -f hack/demo/user.yaml --timeout=300s || fail "the user cannot be deleted"
quiet kubectl delete namespace coder --timeout=300s || fail "namespace coder cannot be deleted"
left=$(kubectl get crd,clusterrole,clusterrolebinding,apiservice,priorityclass,mutatingadmissionpolicy,mutatingadmissionpolicybinding,validatingadmissionpolicy,validatingadmissionpolicybinding -o name |
  grep -E '/coder-k8s(-|$)|coder\.com' || true)
[ -z "$left" ] || fail "left behind: $left"
step "removed: kubectl delete -f install.yaml leaves nothing behind"
