#!/bin/bash
# up.sh: starts the instance CLUSTER_NAME: a real Kubernetes with CLUSTER_NODES nodes (1) in separate namespaces on
# this machine, and PostgreSQL. Needs root. Changes to the machine's own network and mounts: one veth (ck-<name>), a
# route through it for Services and for the pods of each node, one cgroup directory per node and controller. If the
# instance is already up, nothing happens; leftovers of a dead run are removed first; after a failure or an interrupt
# (Ctrl-C, TERM) everything is removed again, after a kill -9 by the next up or down.
set -euo pipefail
unset CLUSTER_NODE  # It starts with node 1.
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
if [ "${CODER_K8S_CLUSTER_STATE:-}" != "$STATE" ] || [ ! "${LOCK_HELD:-}" ]; then
  . "$HERE/preconditions.sh"
  take_lock 1 ||
    die "another start or stop of $CLUSTER_NAME is at work (process $(cat "$LOCK" 2>/dev/null)): wait for it, or end it with hack/cluster/down.sh"
  # Restart this script with our mark in the environment, so that all child processes are recognized as ours. Not
  # before: a script that waits for the lock must not look like a leftover to the one that holds it. The lock survives
  # an exec.
  exec env "$MARK" LOCK_HELD=1 "$0" "$@"
fi

answers() { kubectl_admin --request-timeout=5s get --raw /readyz && listening "$PG_PORT"; }
if [ -f "$STATE/ready" ] && node_pid >/dev/null && answers >/dev/null 2>&1; then
  [ "$NODES" = "$(cat "$STATE/nodes")" ] || die "$CLUSTER_NAME is up with $(cat "$STATE/nodes") nodes: stop it first with hack/cluster/down.sh"
  [ "$CLUSTER_FAMILY" = "$(cat "$STATE/family")" ] || die "$CLUSTER_NAME is up with CLUSTER_FAMILY=$(cat "$STATE/family"): stop it first with hack/cluster/down.sh"
  step "$CLUSTER_NAME is already up: eval \"\$(CLUSTER_NAME=$CLUSTER_NAME hack/cluster/env.sh)\""
  exit 0
fi
left=$("$HERE/leftovers.sh") || true
if grep -qv '^port' <<<"${left:-port}"; then  # A port alone is somebody else's.
  step "removing the leftovers of an earlier run"
  QUIET=1 "$HERE/down.sh"
fi
NODES="${CLUSTER_NODES:-1}"  # Not what an earlier run had.
export CLUSTER_NODES="$NODES"
! listening "$PG_PORT" || die "port $PG_PORT is taken by another program: end it, or set CLUSTER_INDEX or another CLUSTER_NAME"

failed=1
clean_up() {
  trap '' INT TERM HUP
  [ "$failed" ] || return 0
  [ "${KEEP_FAILED:-}" ] && { step "kept as it is (KEEP_FAILED); logs: $LOGS"; return 0; }
  step "taking down what was started; logs: $LOGS"
  QUIET=1 "$HERE/down.sh" || true
}
trap clean_up EXIT
trap 'echo; step "interrupted"; exit 130' INT
trap 'step "terminated"; exit 143' TERM HUP
rm -rf "$LOGS" && mkdir -p "$LOGS"

"$HERE/packages.sh"
[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || modprobe -q br_netfilter || true
[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ] ||
  die "the kernel module br_netfilter is neither loaded nor loadable: Services need it"
grep -qw overlay /proc/filesystems || modprobe -q overlay || die "the kernel module overlay is neither loaded nor loadable: containers need it"
"$HERE/build.sh"
step "programs ready: Kubernetes $KUBE_VERSION, Coder $CODER_VERSION, Terraform $TERRAFORM_VERSION"
"$HERE/images.sh"
step "images ready"

"$HERE/mountpoints.sh" claim
echo "$CLUSTER_INDEX" >"$STATE/index"
"$HERE/pki.sh" >>"$LOGS/pki.log" 2>&1 || { tail_of "$LOGS/pki.log"; die "openssl could not make the certificates: see $LOGS/pki.log"; }
step "certificates and kubeconfigs written"

echo "$NODES" >"$STATE/nodes"
echo "$CLUSTER_FAMILY" >"$STATE/family"

# The switch: a network namespace with a bridge, to which this machine and each node are linked. Nothing filters there, and a
# node can be cut off by closing its port.
setsid unshare --net "$BIN/pause" </dev/null >>"$LOGS/switch.log" 2>&1 9>&- &
echo $! >"$STATE/switch.pid"
# Not before it is in its own namespace.
switched() { [ "$(readlink "/proc/$(cat "$STATE/switch.pid")/ns/net")" != "$(readlink /proc/self/ns/net)" ] && switch_pid; }
until_ok 10 "the switch" switched || die "the network namespace of the switch could not be made: see $LOGS/switch.log"
in_switch() { nsenter -t "$(cat "$STATE/switch.pid")" -n "$@"; }
in_switch ip link add switch type bridge
in_switch ip link set switch up
ip link add "$VETH" type veth peer name host netns "$(cat "$STATE/switch.pid")" || die "the veth $VETH could not be made"
ip link set "$VETH" alias "$VETH_ALIAS"
in_switch ip link set host master switch up
ip link set "$VETH" up
for f in $FAMILIES; do
  # Nobody else has an IPv6 address of ours, so it is used at once.
  # shellcheck disable=SC2046
  ip addr add "$(link_address "$f" 1)/$(link_bits "$f")" dev "$VETH" $([ "$f" = 4 ] || echo nodad)
  ip "-$f" route add "$(svc_cidr "$f")" via "$(node_address "$f" 1)"
  for n in $(seq "$NODES"); do ip "-$f" route add "$(node_pods "$f" "$n")" via "$(node_address "$f" "$n")"; done
done

"$HERE/node-start.sh"
# Stop waiting if the node is dead, or if a daemon crashes repeatedly. This does not check our mark: a process has no
# environment during an exec, as of the node's first process, and on a busy machine that takes a while.
node_gone() { ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$(cat "$STATE/node.pid")/status" 2>/dev/null; }
node_died() { node_gone || [ "$(grep -c ' exited$' "$LOGS/node.log")" -ge 12 ]; }
node_logs() { tail_of "$LOGS"/{node,etcd,kube-apiserver,containerd,kubelet}.log; }
# shellcheck disable=SC2034 # until_ok reads it. It is not exported: down.sh does not have the function.
GIVE_UP=node_died

setsid unshare --mount --pid --ipc --fork --mount-proc --kill-child "$HERE/postgres.sh" </dev/null >>"$LOGS/postgres.log" 2>&1 9>&- &
until_ok 60 "PostgreSQL" psql -h 127.0.0.1 -p "$PG_PORT" -U postgres -c 'CREATE DATABASE coder' ||
  { tail_of "$LOGS/postgres.log"; die "PostgreSQL did not start: see $LOGS/postgres.log"; }
step "PostgreSQL ready: postgres://postgres@$(in_url "$HOST_IP"):$PG_PORT/coder?sslmode=disable"

until_ok 120 "the API server" kubectl_admin get --raw /readyz || { node_logs; die "the API server did not become ready: see $LOGS"; }
step "API server ready: https://$(in_url "$API_IP"):6443"
# kube-apiserver creates its first objects, such as kube-system, with a delay, so these may be refused for a moment.
first_objects() {
  kubectl_admin create clusterrolebinding coder-k8s:kubelet-api-admin --clusterrole=system:kubelet-api-admin \
    --group=coder-k8s:kubelet-api-admin --dry-run=client -o yaml | kubectl_admin apply -f - &&
    sed "s/@DNS_IP@/$DNS_IP/; s/@NODE@/$NODE_NAME/" "$HERE/manifests/coredns.yaml" | kubectl_admin apply -f -
}
until_ok 60 "the first objects" first_objects || { first_objects >&2 || true; die "the cluster does not take its first objects: see $LOGS"; }
for n in $(seq 2 "$NODES"); do CLUSTER_NODE=$n "$HERE/node-start.sh"; done
node_ready() { kubectl_admin wait --for=create "node/$1" --timeout=5s && kubectl_admin wait --for=condition=Ready "node/$1" --timeout=5s; }
for n in $(seq "$NODES"); do
  name=$(node_name "$n")
  until_ok 120 "the node $name" node_ready "$name" || { node_logs; tail_of "$LOGS/node-$n"/*.log; die "the node $name did not become Ready: see $LOGS"; }
  kubectl_admin patch node "$name" -p "{\"spec\": {\"podCIDR\": \"$(node_pods "${FAMILIES%% *}" "$n")\", \"podCIDRs\": [$(each node_pods "$n" | sed 's/[^,]*/"&"/g')]}}" >/dev/null
  step "node $name Ready"
done
until_ok 120 "CoreDNS" kubectl_admin -n kube-system rollout status deployment/coredns --timeout=5s ||
  { node_logs; kubectl_admin -n kube-system get pods,events >&2 || true; die "CoreDNS did not become ready: see $LOGS"; }
until_ok 60 "the default ServiceAccount" kubectl_admin get serviceaccount default || die "the controller manager did not make the default ServiceAccount: see $LOGS"
touch "$STATE/ready"
failed=""
step "CoreDNS ready; the cluster $CLUSTER_NAME is up"
