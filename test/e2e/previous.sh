#!/usr/bin/env bash
# previous.sh DIRECTORY: the previous release as its users have it, in DIRECTORY: its manifests in config/ and its image
# in image.tar. test/release/previous names its commit and its tag. What is there already is not built again. Ends with
# status 3 where the clone does not have the commit: a shallow one.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
[ $# = 1 ] || { echo "usage: test/e2e/previous.sh DIRECTORY" >&2; exit 2; }
out="$1"
read -r commit tag <test/release/previous
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "error: the commit $commit of the previous release $tag is not in this clone: git fetch --unshallow" >&2
  exit 3
fi

# A commit stays what it is: only another compiler, or what the image is assembled with, makes something else of it.
built="$commit $tag $(go env GOVERSION GOARCH | xargs) $(cat hack/image/*.go hack/image/go.sum hack/image/build.sh test/e2e/previous.sh | cksum)"
if [ "$(cat "$out/.built" 2>/dev/null)" = "$built" ]; then exit 0; fi

mkdir -p "$out"
rm -f "$out/.built"
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git archive "$commit" | tar -x -C "$source"
rm -rf "$out/config"
cp -r "$source/config" "$out/config"
# The manifests of a release name its own image.
grep -rl 'coder-k8s:v0.1.0-dev$' "$out/config" | xargs sed -i "s|coder-k8s:v0.1.0-dev\$|coder-k8s:$tag|"

log="$CACHE/logs/build/previous.log"
mkdir -p "$(dirname "$log")"
: >"$log"
build() {
  local version=github.com/coder-k8s/coder-k8s/internal/version
  (cd "$source" && CGO_ENABLED=0 go build -buildvcs=false -trimpath \
    -ldflags "-s -w -X $version.version=$tag -X $version.commit=$commit" -o "$source/coder-k8s" ./cmd/coder-k8s)
}
watched "$log" "building $tag" build || die "the previous release $tag could not be built: see $log"
VERSION="$tag" watched "$log" "image of $tag" hack/image/build.sh "$source/coder-k8s" "$out/image.tar" ||
  die "the image of $tag could not be assembled: see $log"
echo "$built" >"$out/.built"
step "previous release $tag: $out ($(du -m "$out/image.tar" | cut -f1) MB)"
