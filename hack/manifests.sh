#!/usr/bin/env bash
# manifests.sh [DIR]: one file for each way of installation, to apply with kubectl apply --server-side -f, into DIR
# (default dist): install.yaml and install-OVERLAY.yaml.
# VERSION is the image's tag (default: the one in config/process), IMAGE its name; with DIGEST, sha256:..., the image is
# named by that and cannot change any more.
set -euo pipefail
. "$(dirname "$0")/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
out="${1:-dist}"
image="${IMAGE:-ghcr.io/coder-k8s/coder-k8s}"
version="${VERSION:-v0.1.0-dev}"
PATH="$BIN:$PATH"
command -v kubectl >/dev/null || "$HERE/build.sh" kube

# A separate overlay sets the image, so that config is unchanged.
overlay=$(mktemp -d)
trap 'rm -rf "$overlay"' EXIT
render() { # directory of config, file
  local pin="newTag: $version"
  [ -z "${DIGEST:-}" ] || pin="digest: $DIGEST"
  cat >"$overlay/kustomization.yaml" <<EOF
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- $(realpath --relative-to="$(realpath "$overlay")" "config/$1")
images:
- name: ghcr.io/coder-k8s/coder-k8s
  newName: $image
  $pin
EOF
  kubectl kustomize "$overlay" >"$out/.$2" || die "config/$1 does not build: see the message above"
  mv "$out/.$2" "$out/$2"
  step "$out/$2: config/$1, $(grep -c '^kind:' "$out/$2") objects"
}

mkdir -p "$out"
render default install.yaml
for name in split namespaced ha split-ha cert-manager network-policies; do
  render "$name" "install-$name.yaml"
done
