#!/bin/bash
# load-image.sh FILE.tar...: loads the images of docker-archive or OCI tars into each node, like `kind load`.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
load() { # node file...
  local file
  for file in "${@:2}"; do CLUSTER_NODE="$1" "$HERE/node-shell.sh" ctr -n k8s.io images import - <"$file" >/dev/null || return 1; done
}
jobs=()
for n in $(seq "$NODES"); do
  load "$n" "$@" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
