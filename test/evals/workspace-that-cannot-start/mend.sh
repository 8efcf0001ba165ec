#!/usr/bin/env bash
# mend.sh: removes what break.sh has created.
set -euo pipefail
kubectl -n coder delete coderworkspace coder.admin.eval-stuck --ignore-not-found --timeout=300s
kubectl -n coder delete codertemplate coder.eval-unstartable --ignore-not-found --timeout=300s
