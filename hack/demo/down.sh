#!/bin/bash
# down.sh: `make demo-down`: stops the demo and removes everything of it, also of one that was interrupted. With
# CLUSTER=existing it removes the samples and the operator from that cluster instead.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
[ "${CLUSTER:-}" = existing ] || exec "$HERE/down.sh"
cd "$HERE/../.."
kubectl delete -f hack/demo/workspace.yaml --ignore-not-found --timeout=120s || step "the workspace with a shell could not be deleted; going on"
kubectl -n coder delete codertemplate coder.kubernetes --ignore-not-found --timeout=60s || step "its template could not be deleted; going on"
for f in coderworkspace codertemplate codercontrolplane; do
  kubectl delete -f "config/samples/$f.yaml" --ignore-not-found --timeout=120s || step "$f could not be deleted; going on"
done
kubectl delete -f hack/demo/user.yaml --ignore-not-found --timeout=60s
hack/manifests.sh default | kubectl delete -f - --ignore-not-found --timeout=120s
kubectl delete -f config/samples/namespace.yaml --ignore-not-found --timeout=120s
step "the demo is removed from this cluster"
