#!/bin/bash
# database.sh stop|start: stops the instance's PostgreSQL like a restart of a database server, or starts it again with
# its data. Tests use it to simulate an outage.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
node_pid >/dev/null || die "the cluster $CLUSTER_NAME is not up: start it with hack/cluster/up.sh"

# The first process of PostgreSQL, if it is this instance's. It is process 1 of its pid namespace: a new child has the same
# command line at first.
postmaster() {
  local p
  for p in $(our_processes); do
    grep -q $'^NSpid:.*\t1$' "/proc/$p/status" 2>/dev/null || continue
    case "$(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null)" in
      */bin/postgres\ -D\ /mnt/data\ -p\ "$PG_PORT"\ *) echo "$p" && return ;;
    esac
  done
  return 1
}

case "${1:-}" in
  stop)
    p=$(postmaster) || exit 0
    kill -INT "$p"  # A fast shutdown: connections are cut, the data are whole.
    gone() { [ ! -d "/proc/$p" ]; }
    until_ok 30 "PostgreSQL to end" gone || die "PostgreSQL does not end: see $LOGS/postgres.log"
    ;;
  start)
    ! postmaster >/dev/null || exit 0
    setsid env "$MARK" unshare --mount --pid --ipc --fork --mount-proc --kill-child "$HERE/postgres.sh" </dev/null >>"$LOGS/postgres.log" 2>&1 &
    until_ok 60 "PostgreSQL" psql -h 127.0.0.1 -p "$PG_PORT" -U postgres -qAtc 'SELECT 1' >/dev/null ||
      { tail_of "$LOGS/postgres.log"; die "PostgreSQL did not start: see $LOGS/postgres.log"; }
    ;;
  *) die "usage: database.sh stop|start" ;;
esac
