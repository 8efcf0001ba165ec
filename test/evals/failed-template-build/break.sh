#!/usr/bin/env bash
# break.sh: a template that works, and a new version of it that refers to a variable which nobody declared.
set -euo pipefail
template() { # the value of the resource's input
  kubectl apply -f - <<MANIFEST
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderTemplate
metadata: {name: coder.eval-unbuildable, namespace: coder}
spec:
  organization: coder
  files:
    main.tf: |
      resource "terraform_data" "machine" {
        input = $1
      }
MANIFEST
}
template '"large"'
kubectl -n coder wait --for=condition=Ready codertemplate/coder.eval-unbuildable --timeout=300s
template var.machine_size
