#!/bin/bash
# leftovers.sh [INSTANCE]: prints everything of an instance that is left on this machine, one line each, and exits 1
# if there is anything.
set -euo pipefail
CLUSTER_NAME="${1:-${CLUSTER_NAME:-demo}}"
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"

left() {
  local p d f
  for p in $(our_processes); do
    echo "process $p: $(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | cut -c1-120)"
  done
  # Processes of containers have no mark, but they are in our cgroups.
  for p in $({ grep -lE "/$CGROUP_ROOT(\.[2-4])?/" /proc/[0-9]*/cgroup || true; } 2>/dev/null | cut -d/ -f3); do
    echo "container process $p: $(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | cut -c1-120)"
  done
  [ ! -e "/sys/class/net/$VETH" ] || echo "interface $VETH"
  for f in 4 6; do
    ip "-$f" route show | awk -v pod="$(prefix "$f" 1)" -v svc="$(svc_cidr "$f")" -v dev="$VETH" 'index($1, pod) == 1 || $1 == svc || $0 ~ "dev " dev " " {print "route " $0}'
  done
  awk -v s="$STATE" 'index($0, s) {print "mount " $2}' /proc/self/mounts
  for d in $(our_cgroups); do echo "cgroup $d"; done
  [ ! -d "$STATE" ] || echo "state $STATE"
  ! listening "$PG_PORT" || echo "port $PG_PORT is listened on"
  ! grep -qs coder-k8s /usr/sbin/policy-rc.d || echo "file /usr/sbin/policy-rc.d"
}
found=$(left)
[ -n "$found" ] || exit 0
printf '%s\n' "$found"
exit 1
