#!/usr/bin/env bash
# run.sh: what the world has for the Model Context Protocol, against the MCP server. It needs Go and npm, and no cluster.
# 1. The official conformance suite against the server's HTTP stack, with the tools, prompts and resources that the suite
#    expects (test/conformance/fixtures) in place of ours. Six scenarios of 2025-11-25 need sessions, and cannot pass.
# 2. The suite, the inspector, both TypeScript clients and a Go client of other people against the real server, beside a real
#    kube-apiserver (test/conformance/realserver). What the suite needs fixtures for is in the files of expected failures there.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
LOGS="$CACHE/logs/conformance"
log="$LOGS/tests.log"
mkdir -p "$BIN" "$LOGS"
hack/docs/npm/install.sh test/conformance/node conformance
"$HERE/build.sh" etcd apiserver
step "building the server"
make --no-print-directory build
step "the suite and the clients"
: >"$log"
export KUBEBUILDER_ASSETS="$BIN" CONFORMANCE_SUITE="$CACHE/conformance" CONFORMANCE_PROGRAM="$PWD/bin/coder-k8s" CONFORMANCE_LOGS="$LOGS"
# The output of the tests is printed as a whole if one failed.
if ! watched "$log" "the tests" go test -tags "conformance,$OPERATOR_TAGS" -count=1 -timeout 20m -v ./test/conformance/...; then
  cat "$log"
  exit 1
fi
sed -n 's/^ *[a-z]*_test.go:[0-9]*: \(.* passed.*\)/  \1/p' "$log"
