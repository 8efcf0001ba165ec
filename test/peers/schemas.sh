#!/usr/bin/env bash
# schemas.sh [DIRECTORY]: the definitions of other projects whose kinds examples/ uses, from the modules in which they
# publish them (all under the Apache License 2.0), into DIRECTORY ($CACHE/peers/schemas). Then
#   PEER_SCHEMAS=DIRECTORY go test ./test/docs
# tries those manifests too. It is run by hand, because Argo CD's and CloudNativePG's modules are large.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
to="${1:-$CACHE/peers/schemas}"
mkdir -p "$to"
cd "$to"

# take MODULE@VERSION FILE...: files of a module.
take() {
  local directory module="$1"
  shift
  directory=$(go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  [ -n "$directory" ] || die "the module $module cannot be had"
  (cd "$directory" && install -m 644 "$@" "$to/")
  step "$module"
}

take github.com/cloudnative-pg/cloudnative-pg@v1.27.0 config/crd/bases/postgresql.cnpg.io_clusters.yaml
take github.com/argoproj/argo-cd/v3@v3.1.0 manifests/crds/application-crd.yaml
# The modules of test/peers define the versions of these.
version() { (cd "$HERE/../../test/peers/$1" && go list -m -f '{{.Path}}@{{.Version}}' "$2"); }
take "$(version certmanager github.com/cert-manager/cert-manager)" deploy/crds/cert-manager.io_{certificates,issuers}.yaml
take "$(version flux github.com/fluxcd/kustomize-controller)" config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml
take "github.com/fluxcd/source-controller@$(sed -n 's/^SOURCE_CONTROLLER=//p' "$HERE/../../test/peers/flux.sh")" \
  config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml
