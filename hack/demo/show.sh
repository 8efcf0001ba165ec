#!/bin/bash
# show.sh: what the demo can do, printed at its end; needs KUBECONFIG and kubectl in PATH.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
existing=""
[ "${CLUSTER:-}" != existing ] || existing=1

echo
echo '$ kubectl get codercontrolplanes,codertemplates,coderworkspaces -A'
kubectl get codercontrolplanes,codertemplates,coderworkspaces -A

"$HERE/../demo/mcp-call.sh"

# A node of ours lets this machine reach Service addresses; any other cluster needs a port-forward.
if [ "$existing" ]; then
  coder="http://127.0.0.1:8080   (while this runs: kubectl -n coder port-forward service/coder 8080:80)"
  mcp="http://127.0.0.1:8090/mcp   (while this runs: kubectl -n coder-system port-forward service/coder-k8s 8090)"
  begin=""
  use="it is the cluster of your current KUBECONFIG; the plugin: export PATH=\"\$PWD/bin:\$PATH\""
else
  port=$(kubectl -n coder get service coder -o 'jsonpath={.spec.ports[0].port}')
  coder="http://$(in_url "$(kubectl -n coder get service coder -o 'jsonpath={.spec.clusterIP}')")$([ "$port" = 80 ] || echo ":$port")"
  mcp="http://$(in_url "$(kubectl -n coder-system get service coder-k8s -o 'jsonpath={.spec.clusterIP}')"):8090/mcp"
  begin='eval "$(make -s demo-env)"; '
  use='eval "$(make -s demo-env)"'
fi
cat <<T

kubectl      $use
Coder        $coder
             user admin, password: kubectl -n coder get secret coder-initial-admin -o jsonpath='{.data.password}' | base64 -d
T
[ "$existing" ] || cat <<T
             This build of Coder serves the API and no web page (the page is built apart); the official image has both:
             curl -s $coder/api/v2/buildinfo
T
cat <<T
MCP client   $mcp
             with the header "Authorization: Bearer <token>": kubectl -n coder create token demo-user --audience=coder-k8s-mcp
a shell      kubectl coder ssh -n coder admin.dev
             as a user with few rights: kubectl coder exec -n coder admin.dev --as system:serviceaccount:coder:demo-user -- git version
what next    docs/tutorials/from-nothing-to-a-shell.md
stop         make demo-down${existing:+ CLUSTER=existing}

The two commands to begin with${existing:+, after export PATH="\$PWD/bin:\$PATH"}:
  ${begin}kubectl coder status -A
  kubectl coder ssh -n coder admin.dev

T
step "the demo is up"
