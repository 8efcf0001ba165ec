#!/usr/bin/env bash
# break.sh: nothing is broken, but the caller lacks permissions; creates the namespace of the caller's
# account.
set -euo pipefail
kubectl create namespace eval-caller-without-rights --dry-run=client -o yaml | kubectl apply -f -
