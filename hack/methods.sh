#!/usr/bin/env bash
# methods.sh: prints each function of the operator that calls methods by names known only at run time, after the calls
# that lead to it. If there is any, the linker keeps all exported methods: see omitted/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/cluster/settings.sh
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -ldflags "-s -w -dumpdep" -o "$program" ./cmd/coder-k8s 2>&1 | awk -F ' -> ' '
  NF == 2 {
    if ($2 ~ /<ReflectMethod>/) found[++n] = $2
    sub(/ <.*/, "", $1); sub(/ <.*/, "", $2)
    if (!($2 in caller)) caller[$2] = $1
  }
  END {
    for (i = 1; i <= n; i++) {
      name = found[i]; sub(/ <.*/, "", name)
      for (depth = 0; name != "" && depth < 30; depth++) { print (depth ? "  " : "") name; name = caller[name] }
    }
    if (!n) print "none: the linker leaves out unused methods"
  }'
