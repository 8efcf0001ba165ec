#!/usr/bin/env bash
# mend.sh: takes away what break.sh has made.
set -euo pipefail
kubectl -n coder delete codertemplate coder.eval-unbuildable --ignore-not-found --timeout=300s
