#!/usr/bin/env bash
# mend.sh: takes away what break.sh has made.
set -euo pipefail
kubectl -n coder delete coderworkspace coder.admin.eval-stuck --ignore-not-found --timeout=300s
kubectl -n coder delete codertemplate coder.eval-unstartable --ignore-not-found --timeout=300s
