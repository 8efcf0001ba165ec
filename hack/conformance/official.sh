#!/usr/bin/env bash
# official.sh NAME URL REVISION WANT [EXPECTED-FAILURES]: runs the official suite against one server, as run.sh does with
# the fixtures. test/conformance/realserver calls it for the real server.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suite.sh"
conformance "$@"
