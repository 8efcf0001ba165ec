#!/usr/bin/env bash
# tools.sh NAME...: builds the named development tools, once for each version,
# into $TOOLS_DIR. The versions are pinned here and nowhere else, but for helm: hack/cluster/modules/helm/go.mod gives it the versions of
# the operator's libraries, most of its code, so that they are not compiled a second time.
set -euo pipefail
. "$(dirname "$0")/cluster/settings.sh"
. "$HERE/lib.sh"
TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
mkdir -p "$TOOLS_DIR"

module_of() {
  case "$1" in
    controller-gen) echo sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 ;;
    openapi-gen) echo k8s.io/kube-openapi/cmd/openapi-gen@v0.0.0-20260721132016-d427ff9ee9ad ;;
    golangci-lint) echo github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 ;;
    crd-ref-docs) echo github.com/elastic/crd-ref-docs@v0.3.0 ;;
    gotestsum) echo gotest.tools/gotestsum@v1.13.0 ;;
    deadcode) echo golang.org/x/tools/cmd/deadcode@v0.48.0 ;;
    actionlint) echo github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 ;;
    # The newest that the module proxy serves whole.
    vale) echo github.com/errata-ai/vale/v3/cmd/vale@v3.17.1 ;;
    cosign) echo github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3 ;;
    # It needs a newer Go than the project, which the go command fetches.
    osv-scanner) echo github.com/google/osv-scanner/v2/cmd/osv-scanner@v2.6.0 ;;
    helm) echo "helm.sh/helm/v4/cmd/helm@$(sed -n 's#^require helm.sh/helm/v4 ##p' "$HERE/modules/helm/go.mod")" ;;
    *) die "tools.sh knows no tool \"$1\": controller-gen openapi-gen golangci-lint crd-ref-docs gotestsum actionlint vale deadcode cosign osv-scanner helm" ;;
  esac
}

for name in "$@"; do
  module=$(module_of "$name")
  stamp="$TOOLS_DIR/.$name-${module##*@}"
  if [ -x "$TOOLS_DIR/$name" ] && [ -e "$stamp" ]; then continue; fi
  step "building $name ${module##*@}"
  log="$CACHE/logs/build/$name.log"
  mkdir -p "$CACHE/logs/build"
  printf 'program: %s %s\nstarted: %s\n' "${module%@*}" "$TOOLS_DIR/$name" "$(date +%s)" >"$log"
  # Outside the module, so that its go.mod has no say in the tool's versions.
  directory=/ package="$module"
  [ "$name" != helm ] || directory="$HERE/modules/helm" package="${module%@*}"
  # The parsers of vale are written in C.
  cgo=0
  [ "$name" != vale ] || cgo=1
  (cd "$directory" && PROGRESS=go_progress watched "$log" "$name" env CGO_ENABLED="$cgo" GOBIN="$TOOLS_DIR" go install -v -ldflags "-s -w" "$package") ||
    die "$name could not be built: see $log"
  touch "$stamp"
done
