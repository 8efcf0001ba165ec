#!/bin/bash
# env.sh: `make -s demo-env`: the export lines for the demo: KUBECONFIG, PATH and DEMO_POSTGRES_URL, and what the tutorials
# use: the address of an empty database, and the images that the node has.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
"$HERE/env.sh"
cat <<T
export DATABASE_URL="postgres://postgres@$(in_url "$HOST_IP"):$PG_PORT/tutorial?sslmode=disable"
export CODER_IMAGE="$CODER_IMAGE"
export WORKSPACE_IMAGE="$WORKSPACE_IMAGE"
T
