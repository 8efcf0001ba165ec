#!/bin/bash
# build-all.sh [--push NAME:TAG]: builds the operator and, with build.sh, its image for linux/amd64 and linux/arm64. It
# combines the images under one name as the OCI image layout dist/image, and prints its digest. VERSION is as in build.sh;
# ARCHES are the architectures.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
push=()
[ "${1:-}" != --push ] || push=(-push "$2")
export IMAGE_TOOL="$CACHE/image-tool" GZIP=1
(cd hack/image && CGO_ENABLED=0 go build -buildvcs=false -trimpath -o "$IMAGE_TOOL" .)
mkdir -p dist
rm -rf dist/image dist/coder-k8s-linux-*
tars=()
for arch in ${ARCHES:-amd64 arm64}; do
  log="$CACHE/logs/build/operator-$arch.log"
  mkdir -p "$(dirname "$log")"
  watched "$log" "make build for linux/$arch" env GOOS=linux GOARCH=$arch make --no-print-directory build BINARY="dist/coder-k8s-linux-$arch" >&2 ||
    die "the operator could not be built for linux/$arch: see $log"
  PLATFORM=linux/$arch hack/image/build.sh "dist/coder-k8s-linux-$arch" "dist/coder-k8s-linux-$arch.tar" >&2
  tars+=("dist/coder-k8s-linux-$arch.tar")
done
"$IMAGE_TOOL" index -out dist/image "${push[@]}" "${tars[@]}"
