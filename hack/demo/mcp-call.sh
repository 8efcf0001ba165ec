#!/bin/bash
# mcp-call.sh [TOOL [ARGUMENTS]]: calls a tool of the MCP server as the ServiceAccount demo-user and prints the answer
# (default: list_control_planes {}); needs KUBECONFIG, kubectl and curl.
set -euo pipefail
tool="${1:-list_control_planes}" arguments="${2:-{\}}"
host=coder-k8s.coder-system.svc
address=$(kubectl -n coder-system get service coder-k8s -o 'jsonpath={.spec.clusterIP}')
port=8090
if [ "${CLUSTER:-}" = existing ]; then
  host=localhost address=127.0.0.1
  exec 3< <(exec kubectl -n coder-system port-forward service/coder-k8s :8090 2>&1)
  forward=$!
  trap 'kill "$forward" 2>/dev/null || true' EXIT
  read -r line <&3
  port=$(sed -n 's/.*127.0.0.1:\([0-9]*\) .*/\1/p' <<<"$line")
fi
# The token is passed by a file descriptor, because every user of the machine can read command lines.
token=$(kubectl -n coder create token demo-user --audience=coder-k8s-mcp)
body='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"'$tool'","arguments":'$arguments'}}'
echo
echo "\$ curl http://$host:8090/mcp -d '$body'"
# A new Service may refuse connections for its first second.
curl -sS --fail-with-body --retry 5 --retry-connrefused --retry-delay 1 --max-time 20 --resolve "$host:$port:$address" \
  -H @<(printf 'Authorization: Bearer %s\n' "$token") -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' -d "$body" "http://$host:$port/mcp" | sed -n 's/^data: //; /^[{[]/p'
echo
