#!/bin/bash
# env.sh: prints export lines for a shell that wants to use the instance: eval "$(hack/cluster/env.sh)".
# Put a database's name between the / and the ? of the PostgreSQL URL.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
cat <<T
export KUBECONFIG="$KUBECONFIG_ADMIN"
export PATH="$BIN:$(cd "$HERE/../.." && pwd)/bin:\$PATH"
export DEMO_POSTGRES_URL="postgres://postgres@$(in_url "$HOST_IP"):$PG_PORT/?sslmode=disable"
T
