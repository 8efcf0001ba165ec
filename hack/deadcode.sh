#!/usr/bin/env bash
# deadcode.sh: fails on functions that are not reachable from a program of this repository. Code that only tests use
# belongs in their files, or in a package whose name ends in "test". The tool assumes that reflection reaches every
# exported method of a type in an interface, so it misses most methods. It takes 2.5 minutes of processor time and 7
# GiB.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/cluster/settings.sh
hack/tools.sh deadcode
template='{{$path := .Path}}{{range .Funcs}}{{printf "%s %s\n" $path .Name}}{{end}}'
found=$("$TOOLS_DIR/deadcode" -tags "$OPERATOR_TAGS" -f "$template" ./api/... ./cmd/... ./hack/... ./internal/...)
found=$(grep -vE '^[^ ]*test(/[^ ]*)? ' <<<"$found" || true)
[ -z "$found" ] || { printf 'No program reaches these functions. Delete them, or move them into a _test file:\n%s\n' "$found" >&2; exit 1; }
