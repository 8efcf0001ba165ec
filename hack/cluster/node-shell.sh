#!/bin/bash
# node-shell.sh [COMMAND...]: a command (or a shell) on the node CLUSTER_NODE (1), e.g. node-shell.sh ctr -n k8s.io images ls
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
p=$(node_pid) || die "node $NODE of the cluster $CLUSTER_NAME is not up: start it with hack/cluster/up.sh"
exec nsenter -t "$p" -m -n -p -u -i -- "${@:-bash}"
