#!/usr/bin/env bash
# generate.sh: generates all generated files of the repository.
set -euo pipefail
. "$(dirname "$0")/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
hack/tools.sh controller-gen openapi-gen crd-ref-docs

logs="$CACHE/logs/generate"
mkdir -p "$logs" docs/reference
generate() { # what command...
  local what="$1" log
  log="$logs/${1//[ ,]/-}.log"
  shift
  : >"$log"
  watched "$log" "$what" "$@" || die "$what could not be generated"
  step "$what"
}
export gen="$TOOLS_DIR/controller-gen" chart=charts/coder-k8s
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
export own="$programs/generate" # Linked once, not once for each document at the same time.

# Into the Helm chart, whose templates read these files.
crds() {
  generate "CRDs" "$gen" crd:generateEmbeddedObjectMeta=true paths="{./api/v1alpha1/...,./api/records/...}" output:crd:dir=$chart/files/crds
  generate "CRDs, shortened" "$own" crds $chart/files/crds/*.yaml
}
# One role for each component, so that a split installation has the fewest permissions.
rbac() {
  role controller "./internal/controllers/..."
  role apiserver "./internal/apiserver/...,./internal/coderd/connections/..."
}
role() { # component, packages
  component="$1" packages="$2" generate "RBAC of component $1" bash -c '"$gen" "rbac:roleName=coder-k8s-$component" "paths={$packages}" \
    output:rbac:stdout >"$chart/files/roles/$component.yaml"'
}
printed() { # by our own programs
  generate "RBAC of the MCP server" bash -c '"$own" mcp-role >"$chart/files/roles/mcp.yaml"'
  generate "RBAC of the MCP server's toolset inside" bash -c '"$own" mcp-role inside >"$chart/files/roles/mcp-inside.yaml"'
  generate "values of the Helm chart" bash -c '"$own" chart-values "$chart/values.schema.json" >"$chart/values.yaml"'
  generate "reference of the Helm chart" bash -c '"$own" chart-reference "$chart/values.schema.json" >docs/reference/helm-values.md'
  generate "reference of the MCP server" bash -c '"$own" mcp-reference >docs/reference/mcp.md'
  generate "reference of the kubectl plugin" bash -c '"$own" plugin-reference >docs/reference/kubectl-coder.md'
  generate "reference of the metrics" bash -c '"$own" metrics-reference >docs/reference/metrics.md'
  generate "reference of conditions" bash -c '"$own" conditions-reference api/v1alpha1 api/aggregation/v1alpha1 >docs/reference/conditions.md'
}
api() {
  local all="$logs/api.json"
  generate "API reference" "$TOOLS_DIR/crd-ref-docs" --source-path=api --config=hack/generate/crd-ref-docs/config.yaml --renderer=markdown \
    --templates-dir=hack/generate/crd-ref-docs --output-path="$all" --log-level=ERROR
  generate "API reference, a page for each kind" "$own" api-reference "$all" docs/reference
}

# Everything else compiles or reads the types.
generate "deepcopy" "$gen" object paths=./api/...
# The packages of Kubernetes are only read: they already have model names.
kube=(k8s.io/api/autoscaling/v1 k8s.io/apimachinery/pkg/{apis/meta/v1,runtime,version})
openapi=internal/apiserver/generated/openapi
generate "OpenAPI" "$TOOLS_DIR/openapi-gen" --go-header-file /dev/null --report-filename /dev/null --output-dir "$openapi" \
  --output-pkg "github.com/coder-k8s/coder-k8s/$openapi" --output-file zz_generated.openapi.go \
  --output-model-name-file zz_generated.model_name.go "${kube[@]/#/--readonly-pkg=}" "${kube[@]}" ./api/aggregation/v1alpha1 ./api/v1alpha1
generate "generator" go build -o "$own" ./hack/generate
parts=()
for part in crds rbac printed api; do
  "$part" &
  parts+=($!)
done
for part in "${parts[@]}"; do wait "$part" || failed=1; done
[ -z "${failed:-}" ] || die "not everything could be generated"
