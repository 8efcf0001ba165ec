#!/usr/bin/env bash
# build.sh: builds prometheus and promtool into $TOOLS_DIR, once for each version. They
# are not part of hack/tools.sh: their version is in hack/cluster/modules/prometheus/go.mod,
# with the versions of the operator's libraries, so that these are not compiled a second
# time.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
module="$HERE/modules/prometheus"
stamp="$TOOLS_DIR/.prometheus-$(sha256sum "$module/go.sum" | cut -c 1-12)"
if [ -x "$TOOLS_DIR/prometheus" ] && [ -x "$TOOLS_DIR/promtool" ] && [ -e "$stamp" ]; then exit 0; fi

mkdir -p "$TOOLS_DIR" "$CACHE/logs/build"
log="$CACHE/logs/build/prometheus.log"
step "building prometheus and promtool"
# Only the service discovery of Kubernetes: each of the others needs the client library of
# a cloud. Since 3.10 there are build tags for that, but since then Prometheus also uses a
# library for the description of its API that compiles for four minutes.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$module"/go.* "$work"
cd "$work"
source_of_prometheus() {
  local src
  src=$(go mod download -json github.com/prometheus/prometheus | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  cp -r "$src" src
  chmod -R u+w src
  sed -i -E '\#_ ".*/discovery/#{/kubernetes"/!d}' src/plugins/plugins.go
  go mod edit -replace=github.com/prometheus/prometheus=./src
}
source_of_prometheus >"$log" 2>&1 || { tail_of "$log"; die "the source of prometheus could not be fetched: see $log"; }
packages=(github.com/prometheus/prometheus/cmd/{prometheus,promtool})
go_plan "$TOOLS_DIR" -- "${packages[@]}" >>"$log" 2>&1 || true
PROGRESS=go_progress watched "$log" "prometheus" env GOBIN="$TOOLS_DIR" go install -v -ldflags "-s -w" "${packages[@]}" ||
  die "prometheus could not be built: see $log"
touch "$stamp"
