#!/usr/bin/env bash
# mend.sh: removes what break.sh has created.
set -euo pipefail
kubectl -n coder delete codertemplate coder.eval-unbuildable --ignore-not-found --timeout=300s
