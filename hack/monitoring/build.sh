#!/usr/bin/env bash
# build.sh: builds prometheus and promtool into $TOOLS_DIR, once for each version. They
# are no part of hack/tools.sh: their version stands in hack/monitoring/prometheus/go.mod,
# with those of the operator's libraries, so that these are not compiled a second time.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
module="$HERE/../monitoring/prometheus"
stamp="$TOOLS_DIR/.prometheus-$(sha256sum "$module/go.sum" | cut -c 1-12)"
if [ -x "$TOOLS_DIR/prometheus" ] && [ -x "$TOOLS_DIR/promtool" ] && [ -e "$stamp" ]; then exit 0; fi

mkdir -p "$TOOLS_DIR" "$CACHE/logs/build"
log="$CACHE/logs/build/prometheus.log"
step "building prometheus and promtool"
# Of the ways to find targets only that of Kubernetes: each of the others brings the
# client library of a cloud.
cd "$module"
packages=(github.com/prometheus/prometheus/cmd/{prometheus,promtool})
tags=remove_all_sd,enable_kubernetes_sd
go_plan "$TOOLS_DIR" -tags "$tags" -- "${packages[@]}" >"$log" 2>&1 || true
PROGRESS=go_progress watched "$log" "prometheus" env GOBIN="$TOOLS_DIR" go install -v -ldflags "-s -w" -tags "$tags" "${packages[@]}" ||
  die "prometheus could not be built: see $log"
touch "$stamp"
