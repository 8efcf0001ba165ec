#!/usr/bin/env bash
# run.sh [GO TEST FLAG...]: runs the tests of licensed features against real Coders, which Coder's own test helper
# starts with test licenses (test/licensed), and a temporary PostgreSQL. Root. TEST_RESULTS is a directory for the log.
#
# All of it runs in a network of its own, because the helper wants PostgreSQL's usual port, and as the children of one process,
# so that nothing remains. The tests are those of the contract of licensed features (TestLicensedContract), two of the reconciler of control planes,
# and all tests of the packages that keep provisioner keys, proxies and licenses in Coder. What needs an AGPL build or another clock uses the emulation.
set -euo pipefail
. "$(dirname "$0")/../../hack/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
TAGS=$(sed -n 's/^TAGS=//p' "$HERE/build.sh")
version=$(sed -n 's|.*github.com/coder/coder/v2 v||p' test/licensed/go.mod)
HELPER="$BIN/licensed.test"
export logs="${logs:-${TEST_RESULTS:-$CACHE/logs/licensed}}"
packages=(./internal/coderd ./internal/controllers/controlplane ./internal/controllers/controlplane/licensing ./internal/controllers/provisioner/keys ./internal/controllers/workspaceproxy/registration)

if [ "${1:-}" = --inside ]; then
  shift
  ip link set lo up
  mount --make-rprivate /
  mount -t tmpfs tmpfs /mnt
  mount -t tmpfs tmpfs /dev/shm
  PG_BIN=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
  chown postgres /mnt
  as_postgres() { (cd /mnt && exec setpriv --reuid=postgres --regid=postgres --init-groups "$@"); }
  as_postgres "$PG_BIN/initdb" -D /mnt/data -A trust -U postgres --no-sync >"$logs/postgres.log"
  as_postgres "$PG_BIN/postgres" -D /mnt/data -k /mnt -c listen_addresses=127.0.0.1 -c max_connections=500 -c fsync=off >>"$logs/postgres.log" 2>&1 &
  until_ok 60 "PostgreSQL" "$PG_BIN/pg_isready" -h 127.0.0.1 -q || { tail_of "$logs/postgres.log"; die "PostgreSQL does not start"; }
  "$HELPER" -test.run '^TestServe$' -test.timeout 0 >"$logs/helper.log" 2>&1 &
  helper=$!
  url() { sed -n 's/^{"url": "\(.*\)"}$/\1/p' "$logs/helper.log"; }
  ready() { [ -n "$(url)" ]; }
  GIVE_UP=gone
  gone() { ! kill -0 "$helper" 2>/dev/null; }
  until_ok 60 "test/licensed" ready || { tail_of "$logs/helper.log"; die "test/licensed does not start"; }
  step "the tests run"
  # One package after the other: they share the Coders.
  export CODER_LICENSED_URL
  CODER_LICENSED_URL=$(url)
  go test -vet=off -count=1 -p 1 -timeout 20m -run '^(TestLicensedContract|TestALicenseComesChangesAndGoes|TestALicenseThatCoderRefuses)$' "$@" \
    "${packages[@]:0:2}" && status=0 || status=$?
  go test -vet=off -count=1 -p 1 -timeout 20m "$@" "${packages[@]:2}" || status=$?
  [ "$status" = 0 ] || tail_of "$logs/helper.log"
  exit "$status"
fi

[ "$(id -u)" = 0 ] || die "PostgreSQL and a network of its own need root: sudo env \"PATH=\$PATH\" make test-licensed"
"$HERE/packages.sh"
mkdir -p "$BIN" "$logs"
: >"$logs/build.log"
step "compiling test/licensed: minutes the first time, less if Coder $version was built before"
watched "$logs/build.log" "test/licensed" go test -C test/licensed -vet=off -tags "$TAGS" -ldflags "-s -w -X github.com/coder/coder/v2/buildinfo.tag=$version" \
  -c -o "$HELPER.new" . || die "test/licensed could not be built: see $logs/build.log"
mv "$HELPER.new" "$HELPER"
watched "$logs/build.log" "tests" go test -vet=off -run '^$' "${packages[@]}" || die "the tests could not be built: see $logs/build.log"
# unshare ignores SIGINT and SIGTERM. So it is killed, and all in it, when this process ends.
setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc "$0" --inside "$@" &
wait $!
