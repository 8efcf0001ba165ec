#!/bin/bash
# node-start.sh: starts the node CLUSTER_NODE: its namespaces, and its link to the switch. up.sh calls it for each node, and a
# node that was stopped comes back with its disk: CLUSTER_NODE=2 hack/cluster/node-start.sh
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
[ "$NODE" -le "$NODES" ] || die "CLUSTER_NODE=$NODE: the cluster $CLUSTER_NAME has $NODES nodes"
switch=$(switch_pid) || die "the cluster $CLUSTER_NAME is not up: start it with hack/cluster/up.sh"
! node_pid >/dev/null || die "node $NODE of the cluster $CLUSTER_NAME is running"
mkdir -p "$NODE_STATE" "$NODE_LOGS"

# With --kill-child and the pid namespace, one kill ends everything on the node.
setsid env "$MARK" unshare --mount --net --pid --uts --ipc --fork --mount-proc --kill-child "$HERE/node.sh" </dev/null >>"$NODE_LOGS/node.log" 2>&1 9>&- &
unshare_pid=$!
started() {
  local p
  p=$(cat "/proc/$unshare_pid/task/$unshare_pid/children") && p="${p// /}"
  [ -n "$p" ] && [ "$(readlink "/proc/$p/ns/net")" != "$(readlink /proc/self/ns/net)" ] && echo "$p" >"$NODE_STATE/node.pid"
}
until_ok 10 "the namespaces of node $NODE" started || { tail_of "$NODE_LOGS/node.log"; die "the namespaces of node $NODE could not be made: see $NODE_LOGS/node.log"; }
# The kernel may not yet have removed the link of a node that was just stopped.
nsenter -t "$switch" -n ip link del "port$NODE" 2>/dev/null || true
ip link add "port$NODE" netns "$switch" type veth peer name eth0 netns "$(cat "$NODE_STATE/node.pid")" || die "node $NODE could not be linked to the switch"
nsenter -t "$switch" -n ip link set "port$NODE" master switch up
