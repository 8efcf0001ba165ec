#!/usr/bin/env bash
# push.sh REGISTRY: builds the operator's images, pushes them to REGISTRY/coder-k8s:VERSION with the credentials of docker
# login, and prints how to install that image. REGISTRY is a host with an optional path, such as registry.example.com/team.
set -euo pipefail
cd "$(dirname "$0")/../.."
registry="${1:-}"
registry="${registry%/}"
[ -n "$registry" ] || { echo 'error: REGISTRY is empty: call make image-push REGISTRY=registry.example.com/team' >&2; exit 2; }
case "$registry" in
  *://*) echo "error: REGISTRY \"$registry\" must be a host with an optional path, without ${registry%%://*}://" >&2; exit 2 ;;
esac
version="${VERSION:-v0.1.0-dev}"
digest=$(hack/image/build-all.sh --push "$registry/coder-k8s:$version")
IMAGE="$registry/coder-k8s" VERSION="$version" DIGEST="$digest" hack/manifests.sh --all dist
cat <<E
Pushed $registry/coder-k8s:$version, $digest.
Install it with one of:
  kubectl apply -f dist/install.yaml   # or a variant of it: dist/install-NAME.yaml
  helm install coder-k8s charts/coder-k8s --namespace coder-system --create-namespace --wait \\
    --set image.repository=$registry/coder-k8s --set image.digest=$digest
E
