#!/usr/bin/env bash
# break.sh: a control plane with an image from a registry that does not exist.
set -euo pipefail
kubectl apply -f - <<'MANIFEST'
apiVersion: v1
kind: Namespace
metadata: {name: eval-bad-image}
---
apiVersion: v1
kind: Secret
metadata: {name: coder-db, namespace: eval-bad-image}
stringData:
  url: postgres://coder:eval-image-password@127.0.0.1:1/coder?sslmode=disable
---
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: {name: coder, namespace: eval-bad-image}
spec:
  image: registry.invalid/coder:none
  database: {secretRef: {name: coder-db}}
  resources: {requests: {cpu: 50m, memory: 128Mi}}
  # There is nobody to say goodbye to, so mend.sh need not wait.
  terminationGracePeriodSeconds: 1
MANIFEST
