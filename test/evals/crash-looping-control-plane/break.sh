#!/usr/bin/env bash
# break.sh: a control plane whose process exits immediately, because it is configured with an algorithm that does
# not exist.
set -euo pipefail
kubectl apply -f - <<MANIFEST
apiVersion: v1
kind: Namespace
metadata: {name: eval-crash-looping-control-plane}
---
apiVersion: v1
kind: Secret
metadata: {name: coder-db, namespace: eval-crash-looping-control-plane}
stringData:
  url: postgres://coder:eval-crash-password@127.0.0.1:1/coder?sslmode=disable
---
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: {name: coder, namespace: eval-crash-looping-control-plane}
spec:
  image: ${E2E_CODER_IMAGE:-$CODER_IMAGE}
  extraEnv:
  - {name: CODER_SSH_KEYGEN_ALGORITHM, value: rot13}
  database: {secretRef: {name: coder-db}}
  resources: {requests: {cpu: 50m, memory: 128Mi}}
  # There is nobody to say goodbye to, so mend.sh need not wait.
  terminationGracePeriodSeconds: 1
MANIFEST
