#!/usr/bin/env bash
# mend.sh: removes what break.sh has created.
set -euo pipefail
kubectl delete namespace eval-crash-looping-control-plane --ignore-not-found --timeout=300s
