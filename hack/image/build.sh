#!/bin/bash
# build.sh BINARY OUT.tar: assembles the operator's image for one platform from the static BINARY, as a docker-archive tar,
# and prints the tar's path. build-all.sh builds the images for both architectures.
# VERSION is the image's tag (default v0.1.0-dev, that of the chart), IMAGE its name, PLATFORM of BINARY
# (default linux/<this machine's>); GZIP=1 compresses the layers; IMAGE_TOOL is this directory's program, built before.
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
[ $# = 2 ] || { echo "usage: hack/image/build.sh BINARY OUT.tar" >&2; exit 2; }
binary="$1" out="$2"
[ -x "$binary" ] || { echo "error: $binary is not there: build it with \"make build\"" >&2; exit 1; }

version="${VERSION:-v0.1.0-dev}"
name="${IMAGE:-ghcr.io/coder-k8s/coder-k8s}"
revision=$(git -C "$HERE" rev-parse HEAD 2>/dev/null || echo unknown)
# The image's only time is its commit's, so that the same commit gives the same image.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$HERE" log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH

mkdir -p "$(dirname "$out")"
tool="${IMAGE_TOOL:-}"
if [ -z "$tool" ]; then
  tool=$(mktemp)
  trap 'rm -f "$tool"' EXIT
  (cd "$HERE" && CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w" -o "$tool" .)
fi
"$tool" -out "$out" -tag "$name:$version" ${PLATFORM:+-platform "$PLATFORM"} ${GZIP:+-gzip} -distroless \
  -entrypoint /coder-k8s -user 65532:65532 -workdir / \
  -label "org.opencontainers.image.title=coder-k8s" \
  -label "org.opencontainers.image.description=Coder on Kubernetes: controllers, an aggregated API server and an MCP server" \
  -label "org.opencontainers.image.version=$version" \
  -label "org.opencontainers.image.revision=$revision" \
  -label "org.opencontainers.image.source=https://github.com/coder-k8s/coder-k8s" \
  -label "org.opencontainers.image.licenses=Apache-2.0 AND AGPL-3.0-only" \
  "$binary:/coder-k8s:755"
echo "$out"
