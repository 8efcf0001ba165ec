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
mkdir -p dist/install
cat >dist/install/kustomization.yaml <<E
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../config/default]
images:
- name: ghcr.io/coder-k8s/coder-k8s
  newName: $registry/coder-k8s
  digest: $digest
E
cat <<E
Pushed $registry/coder-k8s:$version, $digest.
Install it with one of:
  kubectl apply -k dist/install
  helm install coder-k8s charts/coder-k8s --namespace coder-system --create-namespace --wait \\
    --set image.repository=$registry/coder-k8s --set image.digest=$digest
E
