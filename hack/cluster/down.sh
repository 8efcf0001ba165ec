#!/bin/bash
# down.sh: stops the instance CLUSTER_NAME and removes everything that is left of it, also after an `up` that was
# interrupted or killed at any point; it can be run repeatedly. It first stops an `up` of the instance that is still
# running.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
[ "$(id -u)" = 0 ] || die "down.sh needs root: it ends namespaces, a network interface and cgroups; run it with sudo"
QUIET="${QUIET:-}"

# Processes: every process that we start has our mark in its environment, and those of containers end with the node's
# first process. Only processes with the mark are stopped, so that no other process is ever stopped.
was_up=""
ended() {
  local p
  p=$(our_processes)
  [ -n "$p" ] || return 0
  was_up=1
  # shellcheck disable=SC2086
  kill -9 $p 2>/dev/null || true
  return 1
}
gone() { ended; }
until_ok 15 "the processes to end" gone || die "these processes of $CLUSTER_NAME do not end: $(our_processes | xargs)"

# If `up` calls this script, `up` holds the lock; otherwise take it.
[ "${LOCK_HELD:-}" ] || take_lock 10 || die "another start or stop of $CLUSTER_NAME is at work"

# The interface goes with the network namespace of the switch, a moment after its last process; the routes go with it.
if [ "$(cat "/sys/class/net/$VETH/ifalias" 2>/dev/null)" = "$VETH_ALIAS" ]; then ip link del "$VETH" 2>/dev/null || true; fi

# A cgroup can be removed when the kernel has released its last process.
no_cgroups() {
  local d
  for d in $(our_cgroups); do find "$d" -depth -type d -exec rmdir {} \; 2>/dev/null || true; done
  [ -z "$(our_cgroups)" ]
}
until_ok 15 "the cgroups to empty" no_cgroups || die "these cgroups do not empty: $(our_cgroups | xargs)"

[ ! -d "$STATE" ] || was_up=1
rm -rf --one-file-system "$STATE"
"$HERE/mountpoints.sh" release
"$HERE/packages.sh" --clean
[ -n "$QUIET" ] || if [ -n "$was_up" ]; then step "$CLUSTER_NAME is down"; else step "$CLUSTER_NAME was not up"; fi
