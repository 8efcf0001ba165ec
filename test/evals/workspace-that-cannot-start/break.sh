#!/usr/bin/env bash
# break.sh: a workspace whose start fails, although its template was built successfully.
set -euo pipefail
kubectl apply -f - <<'MANIFEST'
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderTemplate
metadata: {name: coder.eval-unstartable, namespace: coder}
spec:
  organization: coder
  files:
    main.tf: |
      terraform {
        required_providers {
          coder = {
            source  = "coder/coder"
            version = "2.13.1"
          }
        }
      }

      data "coder_workspace" "me" {}

      resource "terraform_data" "machine" {
        count = data.coder_workspace.me.start_count
        input = data.coder_workspace.me.name
        lifecycle {
          precondition {
            condition     = data.coder_workspace.me.name != "eval-stuck"
            error_message = "no node has 512 GiB of memory free"
          }
        }
      }
MANIFEST
kubectl -n coder wait --for=condition=Ready codertemplate/coder.eval-unstartable --timeout=300s
kubectl apply -f - <<'MANIFEST'
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.admin.eval-stuck, namespace: coder}
spec: {organization: coder, templateName: eval-unstartable, running: true}
MANIFEST
