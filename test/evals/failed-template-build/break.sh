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
# Coder sometimes loses what Terraform wrote last, and then nobody can tell the cause. Another version is built then.
for attempt in 1 2 3 4 5; do
  template "var.machine_size # attempt $attempt"
  kubectl -n coder wait --for=jsonpath='{.status.latestVersionStatus}'=failed codertemplate/coder.eval-unbuildable --timeout=300s
  log=$(kubectl get --raw /apis/aggregation.coder.com/v1alpha1/namespaces/coder/codertemplates/coder.eval-unbuildable/log)
  if [[ "$log" == *"has not been declared"* ]]; then exit; fi
done
echo "the log of Coder never contained the error of Terraform; the last one is: $log" >&2
exit 1
