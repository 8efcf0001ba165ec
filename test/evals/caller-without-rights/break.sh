#!/usr/bin/env bash
# break.sh: nothing is broken but what the caller may do; the namespace is where the caller's account is.
set -euo pipefail
kubectl create namespace eval-caller-without-rights --dry-run=client -o yaml | kubectl apply -f -
