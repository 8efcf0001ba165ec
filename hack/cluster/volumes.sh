#!/bin/bash
# volumes.sh: provides each claim of the StorageClass "standard" with a directory; started by node.sh only. With several
# nodes a volume stays on the node for which the scheduler chose it. The reclaim policy is Delete: kube-controller-manager
# removes the directory and the volume after the claim, which it supports only below a "tmp" directory.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
directory="$STATE/tmp/volumes"
mode=Immediate
[ "$NODES" = 1 ] || mode=WaitForFirstConsumer
storage_class() { sed "s/@MODE@/$mode/" "$HERE/manifests/storage.yaml" | kubectl_admin apply -f -; }
until_ok 120 "the API server" storage_class

provision() { # namespace claim uid size [node]
  local affinity=""
  [ -z "$5" ] || affinity="nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [$5]}]}]}}"
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
  $affinity
Y
}
claims='{.spec.storageClassName}|{.status.phase}|{.metadata.namespace}|{.metadata.name}|{.metadata.uid}|{.spec.resources.requests.storage}|{.spec.volumeName}|{.metadata.annotations.volume\.kubernetes\.io/selected-node}{"\n"}'
kubectl_admin get persistentvolumeclaims -A --watch -o "jsonpath=$claims" |
  while IFS='|' read -r class phase namespace claim uid size volume node; do
    [ "$class $phase" = "standard Pending" ] && [ -z "$volume" ] || continue
    [ "$mode" = Immediate ] || [ "$node" ] || continue
    provision "$namespace" "$claim" "$uid" "$size" "$node" || true
  done
