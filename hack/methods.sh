#!/usr/bin/env bash
# methods.sh: prints each function of the operator that finds methods of any type by reflection, and below it its
# callers up to the start of the program. If there is any, the linker keeps all exported methods: see omitted/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/cluster/settings.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -ldflags "-s -w -dumpdep" -o "$work/program" ./cmd/coder-k8s 2>"$work/calls" || { tail -n 20 "$work/calls" >&2; exit 1; }
awk -F ' -> ' '
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
  }' "$work/calls"
