#!/bin/bash
# load-image.sh FILE.tar...: loads the images of docker-archive or OCI tars into the node, like `kind load`.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
p=$(node_pid) || die "the cluster $CLUSTER_NAME is not up: start it with hack/cluster/up.sh"
for f in "$@"; do nsenter -t "$p" -m -n -p ctr -n k8s.io images import - <"$f" >/dev/null; done
