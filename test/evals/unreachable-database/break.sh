#!/usr/bin/env bash
# break.sh: a control plane whose database is at an address where nothing listens.
set -euo pipefail
kubectl apply -f - <<MANIFEST
apiVersion: v1
kind: Namespace
metadata: {name: eval-unreachable-database}
---
apiVersion: v1
kind: Secret
metadata: {name: coder-db, namespace: eval-unreachable-database}
stringData:
  url: postgres://coder:eval-database-password@127.0.0.1:1/coder?sslmode=disable
---
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: {name: coder, namespace: eval-unreachable-database}
spec:
  image: ${E2E_CODER_IMAGE:-$CODER_IMAGE}
  database: {secretRef: {name: coder-db}}
  resources: {requests: {cpu: 50m, memory: 128Mi}}
  # There is nobody to say goodbye to, so mend.sh need not wait.
  terminationGracePeriodSeconds: 1
MANIFEST
