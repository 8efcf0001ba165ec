#!/bin/bash
# volumes.sh: provides each claim of the StorageClass "standard" with a directory of the node; started by node.sh
# only. The reclaim policy is Delete: kube-controller-manager removes the directory and the volume after the claim,
# which it supports only below a "tmp" directory.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
directory="$STATE/tmp/volumes"
until_ok 120 "the API server" kubectl_admin apply -f "$HERE/manifests/storage.yaml"

provision() { # namespace claim uid size
  # Any user may write there: fsGroup is not supported for a directory of the node.
  mkdir -p "$directory/$3" && chmod 777 "$directory/$3"
  kubectl_admin create -f - <<Y
apiVersion: v1
kind: PersistentVolume
metadata: {name: pvc-$3}
spec:
  storageClassName: standard
  persistentVolumeReclaimPolicy: Delete
  accessModes: [ReadWriteOnce]
  capacity: {storage: $4}
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: $1, name: $2, uid: $3}
  hostPath: {path: $directory/$3}
Y
}
kubectl_admin get persistentvolumeclaims -A --watch -o 'jsonpath={.spec.storageClassName} {.status.phase} {.metadata.namespace} {.metadata.name} {.metadata.uid} {.spec.resources.requests.storage} {.spec.volumeName}{"\n"}' |
  while read -r class phase namespace claim uid size volume; do
    [ "$class $phase" != "standard Pending" ] || [ "$volume" ] || provision "$namespace" "$claim" "$uid" "$size" || true
  done
