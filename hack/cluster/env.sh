#!/bin/bash
# env.sh: prints export lines for a shell that wants to use the instance: eval "$(hack/cluster/env.sh)".
# Put a database's name between the / and the ? of the PostgreSQL URL.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
printf 'export KUBECONFIG=%q\n' "$KUBECONFIG_ADMIN"
printf 'export PATH=%q:"$PATH"\n' "$BIN"
printf 'export DEMO_POSTGRES_URL=%q\n' "postgres://postgres@$HOST_IP:$PG_PORT/?sslmode=disable"
