#!/usr/bin/env bash
# run.sh: what the world has for the Model Context Protocol, against the MCP server. It needs Go and npm, and no cluster.
# 1. The official conformance suite against the server's HTTP stack, with the tools, prompts and resources that the suite
#    expects (test/conformance/fixtures) in place of ours. Without sessions, which is the default, four scenarios of
#    2025-11-25 cannot pass; with sessions all must.
# 2. The suite, the inspector, both TypeScript clients and a Go client of other people against the real server, beside a real
#    kube-apiserver (test/conformance/realserver). What the suite needs fixtures for is in the files of expected failures there.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suite.sh"
FIXTURES="$BIN/conformance-fixtures"
PROGRAM="$BIN/conformance-coder-k8s"
server=

start() { # ARGUMENT...: starts the fixtures and sets URL
  local output="$RESULTS/fixtures.url"
  mkdir -p "$RESULTS"
  : >"$output"
  "$FIXTURES" "$@" >"$output" 2>"$RESULTS/fixtures.log" &
  server=$!
  until_ok 60 "the fixtures to listen" test -s "$output" || { tail_of "$RESULTS/fixtures.log"; die "the fixtures do not listen"; }
  URL=$(head -n 1 "$output")
}

stop() { # ends the fixtures, which must end cleanly
  local pid="$server"
  server=
  if [ -z "$pid" ]; then return; fi
  kill "$pid"
  wait "$pid" || { tail_of "$RESULTS/fixtures.log"; die "the fixtures did not end cleanly"; }
}

real() { # runs the clients against the real server, and prints how many checks passed; everything where one failed
  local log="$RESULTS/real.log" status=0
  : >"$log"
  export KUBEBUILDER_ASSETS="$BIN" CONFORMANCE_SUITE="$SUITE" CONFORMANCE_PROGRAM="$PROGRAM" CONFORMANCE_LOGS="$RESULTS"
  watched "$log" "the clients" go_test || status=$?
  if [ "$status" != 0 ]; then cat "$log"; else sed -n 's/^ *[a-z]*_test.go:[0-9]*: \(.* passed\)/  \1/p' "$log"; fi
  return "$status"
}

go_test() { cd "$HERE/../.." && go test -tags "conformance,$OPERATOR_TAGS" -count=1 -timeout 20m -v ./test/conformance/realserver; }

trap '[ -z "$server" ] || kill "$server"' EXIT

"$HERE/../npm/install.sh" "$HERE/../../test/conformance/node" conformance
step "building the fixtures"
mkdir -p "$BIN"
(cd "$HERE/../.." && go build -o "$FIXTURES" ./test/conformance/fixtures)

failed=0
start
conformance stateless-2026-07-28 "$URL" 2026-07-28 37/37 || failed=1
conformance stateless-2025-11-25 "$URL" 2025-11-25 26/30 stateless-2025-11-25.yml || failed=1
stop
start -sessions 100
conformance sessions-2026-07-28 "$URL" 2026-07-28 37/37 || failed=1
conformance sessions-2025-11-25 "$URL" 2025-11-25 30/30 || failed=1
stop

step "building the real server"
"$HERE/build.sh" etcd kube
(cd "$HERE/../.." && go build -o "$PROGRAM" ./cmd/coder-k8s)
step "the clients against the real server"
real || failed=1
exit "$failed"
