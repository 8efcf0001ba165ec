#!/usr/bin/env bash
# mend.sh: removes what break.sh has created.
set -euo pipefail
kubectl delete namespace eval-unreachable-database --ignore-not-found --timeout=300s
