#!/usr/bin/env bash
# Generates the OpenAPI definitions of the aggregated API group, and the model
# names that its types need, with openapi-gen from
# ${TOOLS_DIR}. The Makefile installs the tool and calls this.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TOOLS_DIR=${TOOLS_DIR:-${CODER_K8S_CACHE:-$HOME/.cache/coder-k8s}/tools}
header=$(mktemp)
trap 'rm -f "${header}"' EXIT
: >"${header}"

# The packages of Kubernetes are only read: they already have model names.
"${TOOLS_DIR}/openapi-gen" \
  --go-header-file "${header}" \
  --output-dir internal/apiserver/generated/openapi \
  --output-pkg github.com/coder-k8s/coder-k8s/internal/apiserver/generated/openapi \
  --output-file zz_generated.openapi.go \
  --output-model-name-file zz_generated.model_name.go \
  --report-filename /dev/null \
  --readonly-pkg k8s.io/api/autoscaling/v1 \
  --readonly-pkg k8s.io/apimachinery/pkg/apis/meta/v1 \
  --readonly-pkg k8s.io/apimachinery/pkg/runtime \
  --readonly-pkg k8s.io/apimachinery/pkg/version \
  k8s.io/api/autoscaling/v1 \
  k8s.io/apimachinery/pkg/apis/meta/v1 \
  k8s.io/apimachinery/pkg/runtime \
  k8s.io/apimachinery/pkg/version \
  ./api/aggregation/v1alpha1
