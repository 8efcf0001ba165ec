#!/usr/bin/env bash
# mend.sh: removes what break.sh has created.
set -euo pipefail
kubectl delete namespace eval-bad-image --ignore-not-found --timeout=300s
