#!/usr/bin/env bash
# manifests.sh NAME|FILE...    prints the manifests of one installation, to apply with kubectl
# manifests.sh --all [DIR]     writes each into DIR (default dist): install.yaml, and install-NAME.yaml
#
# An installation is the Helm chart rendered with values: NAME is a file of charts/coder-k8s/installations, FILE is one of
# your own. The values of several are combined, and the last ones win.
# VERSION is the image's tag (default: that of the chart), IMAGE its name; with DIGEST, sha256:..., the image is named by
# that and cannot change any more.
set -euo pipefail
. "$(dirname "$0")/cluster/settings.sh"
. "$HERE/lib.sh"
chart="$(cd "$HERE/../.." && pwd)/charts/coder-k8s"
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
"$HERE/../tools.sh" helm >&2

# For one version of Kubernetes, so that the output does not depend on that of helm.
render() { # NAME|FILE...
  local values=() of
  for of in "$@"; do
    [ ! -f "$chart/installations/$of.yaml" ] || of="$chart/installations/$of.yaml"
    [ -f "$of" ] || die "\"$of\" is neither a file nor one of: $(cd "$chart/installations" && echo *.yaml | sed 's/\.yaml//g')"
    values+=(--values "$of")
  done
  "$TOOLS_DIR/helm" template coder-k8s "$chart" --namespace coder-system --no-hooks --kube-version 1.36.0 \
    --api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy "${values[@]}" --set forKubectl=true \
    --set-string "image.repository=${IMAGE:-ghcr.io/coder-k8s/coder-k8s},image.tag=${VERSION:-},image.digest=${DIGEST:-}"
}

case "${1:-}" in
  "") die "name an installation, for example: $0 default" ;;
  --all) ;;
  *) render "$@"; exit ;;
esac
out="${2:-dist}"
mkdir -p "$out"
for file in "$chart"/installations/*.yaml; do
  name=$(basename "$file" .yaml)
  to="$out/install-$name.yaml"
  [ "$name" != default ] || to="$out/install.yaml"
  render "$name" >"$to.new"
  mv "$to.new" "$to"
  step "$to: $(grep -c '^kind:' "$to") objects"
done
