#!/bin/bash
# up.sh: `make demo`: a real cluster with a real Coder in it and the operator installed as a user installs it. Run again
# while it is up, it says so, builds and applies again. Warm it takes less than a minute.
#
# CLUSTER=existing uses the cluster of the current KUBECONFIG (kind, minikube, any) instead of starting one; root is not
# needed then. It takes
#   DATABASE_URL     an empty PostgreSQL database as the cluster's pods reach it: postgres://user:password@host:5432/coder
#   IMAGE_LOAD_CMD   what makes our image known to the cluster, called with the tar's path: "kind load image-archive",
#                    "minikube image load"; without it the image must have been pushed to where the cluster finds it
#
# Interrupted while the cluster starts, that takes itself down; interrupted later, the cluster stays: `make demo`
# continues and `make demo-down` stops it.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
. "$HERE/../demo/wait.sh"
cd "$HERE/../.."
existing=""
[ "${CLUSTER:-}" != existing ] || existing=1
[ -z "${CLUSTER:-}" ] || [ "$existing" ] || die "CLUSTER=$CLUSTER is not known: leave it out, or use CLUSTER=existing"

LOGS="$CACHE/logs/demo-install"
mkdir -p "$LOGS"
if [ "$existing" ]; then
  command -v kubectl >/dev/null || die "CLUSTER=existing needs kubectl in PATH"
  [ -n "${DATABASE_URL:-}" ] || die "CLUSTER=existing needs DATABASE_URL: a PostgreSQL database as the cluster's pods reach it"
  kubectl --request-timeout=10s get --raw /readyz >/dev/null 2>"$LOGS/kubectl.log" ||
    die "the cluster of the current KUBECONFIG does not answer: $(tail -n 1 "$LOGS/kubectl.log")"
  step "using the cluster of the context $(kubectl config current-context)"
else
  # Then start over with our mark in the environment: so `make demo-down` finds and ends what is still at work.
  [ "${CODER_K8S_CLUSTER_STATE:-}" = "$STATE" ] || { "$HERE/up.sh"; exec env "$MARK" "$0" "$@"; }
  export KUBECONFIG="$KUBECONFIG_ADMIN" PATH="$BIN:$PATH"
  DATABASE_URL="postgres://postgres@$(in_url "$HOST_IP"):$PG_PORT/coder?sslmode=disable"
  # The tutorials start with an empty database (env.sh).
  psql -h 127.0.0.1 -p "$PG_PORT" -U postgres -qc 'CREATE DATABASE tutorial' >"$LOGS/psql.log" 2>&1 || grep -q 'already exists' "$LOGS/psql.log" ||
    die "the database of the tutorials could not be made: $(tail -n 1 "$LOGS/psql.log")"
fi
trap 'echo; step "interrupted; the cluster stays: make demo continues, make demo-down stops it"; exit 130' INT

# The operator and its image.
: >"$LOGS/build.log"
go_plan "$PWD/bin" -- ./cmd/coder-k8s ./cmd/kubectl-coder >>"$LOGS/build.log" 2>&1 || true
PROGRESS=go_progress watched "$LOGS/build.log" "make build" env GOFLAGS="$GOFLAGS -v" make --no-print-directory build ||
  die "the operator could not be built: see $LOGS/build.log"
watched "$LOGS/build.log" "image" "$HERE/../image/build.sh" bin/coder-k8s bin/coder-k8s.tar ||
  die "the image could not be assembled: see $LOGS/build.log"
step "operator and image built: $(du -m bin/coder-k8s.tar | cut -f1) MB"
if [ -z "$existing" ]; then
  watched "$LOGS/load.log" "loading the image" "$HERE/load-image.sh" bin/coder-k8s.tar || die "the node did not take the image: see $LOGS/load.log"
elif [ -n "${IMAGE_LOAD_CMD:-}" ]; then
  # shellcheck disable=SC2086
  watched "$LOGS/load.log" "loading the image" $IMAGE_LOAD_CMD bin/coder-k8s.tar || die "\"$IMAGE_LOAD_CMD bin/coder-k8s.tar\" failed: see $LOGS/load.log"
fi

# The operator, with the same manifests that a user applies. The tag of a development image does not change between
# builds, so pods of an older build are restarted.
image_sum=$(cksum <bin/coder-k8s.tar)
installed_sum=$(kubectl -n coder-system get deployment coder-k8s -o 'jsonpath={.metadata.annotations.demo\.coder-k8s/image}' 2>/dev/null || true)
hack/manifests.sh default >"$LOGS/install.yaml" || die "the manifests could not be rendered: see the message above"
kubectl apply -f "$LOGS/install.yaml" >"$LOGS/apply.log" 2>&1 || { tail_of "$LOGS/apply.log"; die "kubectl apply -f $LOGS/install.yaml failed"; }
if [ -n "$installed_sum" ] && [ "$installed_sum" != "$image_sum" ]; then
  kubectl -n coder-system rollout restart deployment/coder-k8s >>"$LOGS/apply.log"
fi
kubectl -n coder-system annotate deployment coder-k8s --overwrite "demo.coder-k8s/image=$image_sum" >>"$LOGS/apply.log"
step "operator installed: hack/manifests.sh default | kubectl apply -f -"
until_ok 180 "the operator" kubectl -n coder-system rollout status deployment/coder-k8s --timeout=1s || diagnose "the operator did not become available"
until_ok 60 "the aggregated API" kubectl wait --for=condition=Available apiservice/v1alpha1.aggregation.coder.com --timeout=1s ||
  diagnose "the APIService v1alpha1.aggregation.coder.com did not become Available"
step "operator and aggregated API available"

# The samples, each when its dependencies are ready.
kubectl apply -f config/samples/namespace.yaml >>"$LOGS/apply.log"
kubectl -n coder create secret generic coder-db --from-literal="url=$DATABASE_URL" --dry-run=client -o yaml | kubectl apply -f - >>"$LOGS/apply.log"
control_plane=config/samples/codercontrolplane.yaml
[ -n "$existing" ] || control_plane=$(control_plane)
sample "$control_plane" "the control plane" "$READY" True 300
# A user of the MCP server, who may also enter workspaces.
kubectl apply -f hack/demo/user.yaml >>"$LOGS/apply.log"
until_ok 30 "the API of templates" apply_to "$LOGS/apply.log" config/samples/codertemplate.yaml || diagnose "kubectl apply -f config/samples/codertemplate.yaml failed"
# Our node has an image for workspaces; any other cluster pulls the image in the template.
variables=()
[ "$existing" ] || variables=(--variable "image=$WORKSPACE_IMAGE")
watched "$LOGS/template.log" "the template of workspaces on Kubernetes" bin/kubectl-coder template push -n coder coder.kubernetes \
  examples/templates/kubernetes --create --wait --timeout 2m "${variables[@]}" || diagnose "the template examples/templates/kubernetes is not ready"
step "the template of workspaces on Kubernetes is ready: examples/templates/kubernetes"
sample config/samples/codertemplate.yaml "the template" "$READY" True 120
kubectl apply -f config/samples/coderworkspace.yaml -f hack/demo/workspace.yaml >>"$LOGS/apply.log"
sample config/samples/coderworkspace.yaml "the workspace" '{.status.phase}' Running 120
sample hack/demo/workspace.yaml "the workspace with a shell" "$READY" True 180

"$HERE/../demo/show.sh"
