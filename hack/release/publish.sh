#!/usr/bin/env bash
# publish.sh vX.Y.Z: pushes the image and the chart that release.sh made to REGISTRY (default ghcr.io/coder-k8s), with the
# credentials of docker login and helm registry login, and signs them and the checksums with cosign: as the GitHub workflow
# that runs it (keyless), or with COSIGN_KEY, the file of a key, and then without a transparency log. PLAIN_HTTP=1 is for a
# registry of this machine. The pages of the release itself are the workflow's.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
version="${1:-}" out=dist/release
registry="${REGISTRY:-ghcr.io/coder-k8s}"
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
chart="$out/coder-k8s-${version#v}.tgz"
[ -f "$chart" ] || die "$chart is not there: hack/release/release.sh \"$version\" makes it"
(cd "$out" && sha256sum --check --quiet checksums.txt) || die "$out is not what release.sh made: run it again"
hack/tools.sh helm cosign

http=() helm_http=() key=(--yes)
[ -z "${PLAIN_HTTP:-}" ] || http=(--allow-http-registry) helm_http=(--plain-http)
[ -z "${COSIGN_KEY:-}" ] || key=(--yes --key "$COSIGN_KEY" --use-signing-config=false --tlog-upload=false)
sign() { # image by digest
  "$TOOLS_DIR/cosign" sign "${key[@]}" "${http[@]}" "$1" || die "$1 could not be signed"
}

image="$registry/coder-k8s"
digest=$("$CACHE/image-tool" index -push "$image:$version" dist/coder-k8s-linux-*.tar)
[ "$digest" = "$(cat "$out/image-digest.txt")" ] || die "$image:$version has digest $digest, but the manifests name $(cat "$out/image-digest.txt")"
step "$image:$version@$digest"
sign "$image@$digest"
(cd hack/release && go run . platforms ../../dist/image) | while read -r platform of; do
  "$TOOLS_DIR/cosign" attest "${key[@]}" "${http[@]}" --type cyclonedx \
    --predicate "$out/image_${version}_${platform/\//_}.cdx.json" "$image@$of" || die "the contents of $image@$of could not be attested"
done

answer=$("$TOOLS_DIR/helm" push "$chart" "oci://$registry/charts" "${helm_http[@]}" 2>&1) || die "the chart could not be pushed: $answer"
chart_digest=$(sed -n 's/^Digest: //p' <<<"$answer")
step "$registry/charts/coder-k8s:${version#v}@$chart_digest"
sign "$registry/charts/coder-k8s@$chart_digest"

"$TOOLS_DIR/cosign" sign-blob "${key[@]}" --bundle "$out/checksums.txt.sigstore.json" "$out/checksums.txt" ||
  die "the checksums could not be signed"
step "$out/checksums.txt.sigstore.json"
