#!/usr/bin/env bash
# release.sh vX.Y.Z: everything that a release of the checked-out commit consists of, into dist/release. It publishes nothing:
# publish.sh does. The commit must carry the tag and the tree must be clean, unless SNAPSHOT=1. ARCHES (default amd64 arm64)
# are the architectures of the image.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
export VERSION="${1:-}"
[[ "$VERSION" =~ ^v(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$ ]] ||
  die "\"$VERSION\" is no version: give one as v1.2.3 or v1.2.3-rc.1"
if [ -z "${SNAPSHOT:-}" ]; then
  [ -z "$(git status --porcelain)" ] || die "the tree has changes that are not committed (git status): a release is made from a commit"
  [ "$(git rev-parse -q --verify "$VERSION^{commit}")" = "$(git rev-parse HEAD)" ] ||
    die "the commit that is checked out has no tag $VERSION: git tag -s $VERSION, or SNAPSHOT=1 to try without"
fi
# The only timestamp in the files is that of the commit, so that builds are reproducible.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
BASE="https://github.com/coder-k8s/coder-k8s/releases/download/$VERSION"
IMAGE_LICENSE="Apache-2.0 AND AGPL-3.0-only" # Coder's client library is in coder-k8s, but not in kubectl-coder.
out=dist/release work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

tool="$work/release"
(cd hack/release && CGO_ENABLED=0 go build -buildvcs=false -trimpath -o "$tool" .)
hack/tools.sh helm

# archive NAME LICENSE PROGRAM FILE...: an archive of PROGRAM with the licenses, and the list of what is in it.
archive() {
  local name="$1" license="$2" program="$3"
  "$tool" licenses "$program" >"$work/licenses"
  "$tool" archive -out "$out/$name" LICENSE:LICENSE "$work/licenses:THIRD_PARTY_LICENSES.txt" "${@:4}"
  "$tool" sbom -name "${name%%_*}" -version "$VERSION" -license "$license" "$program" >"$out/$name.cdx.json"
  step "$name: $(du -h "$out/$name" | cut -f1)"
}

digest=$(hack/image/build-all.sh)
echo "$digest" >"$out/image-digest.txt"
"$tool" platforms dist/image | while read -r platform image; do
  arch="${platform#linux/}"
  program="dist/coder-k8s-linux-$arch"
  archive "coder-k8s_${VERSION}_linux_$arch.tar.gz" "$IMAGE_LICENSE" "$program" "$program:coder-k8s:755"
  "$tool" sbom -name coder-k8s -version "$VERSION" -license "$IMAGE_LICENSE" -digest "$image" -platform "$platform" \
    -image-tool "$CACHE/image-tool" "$program" >"$out/image_${VERSION}_linux_$arch.cdx.json"
done

plugins=()
for platform in ${PLUGIN_PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}; do
  os="${platform%/*}" arch="${platform#*/}" program=kubectl-coder format=tar.gz
  completion=(cmd/kubectl-coder/kubectl_complete-coder:kubectl_complete-coder:755)
  [ "$os" != windows ] || program=kubectl-coder.exe format=zip completion=()
  log="$CACHE/logs/build/kubectl-coder-$os-$arch.log"
  watched "$log" "kubectl-coder for $platform" env GOOS="$os" GOARCH="$arch" make --no-print-directory plugin BINARY="$work/coder-k8s" ||
    die "kubectl-coder could not be built for $platform: see $log"
  name="kubectl-coder_${VERSION}_${os}_$arch.$format"
  archive "$name" Apache-2.0 "$work/$program" "$work/$program:$program:755" "${completion[@]}"
  plugins+=("$out/$name")
done
"$tool" krew -version "$VERSION" -base "$BASE" "${plugins[@]}" >"$out/coder.yaml"

DIGEST="$digest" hack/manifests.sh --all "$out"
"$TOOLS_DIR/helm" package charts/coder-k8s --version "${VERSION#v}" --app-version "$VERSION" --destination "$out"
hack/release/notes.sh "$VERSION" >"$out/notes.md"
(cd "$out" && find . -type f ! -name notes.md -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >"$work/checksums.txt" && mv "$work/checksums.txt" .)
step "$out: $(find "$out" -type f | wc -l) files, image $digest"
