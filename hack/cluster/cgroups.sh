# shellcheck shell=bash
# cgroups.sh: makes the cgroup under which the kubelet keeps its pods; sourced by node.sh. Both kinds of host, and the
# driver is cgroupfs on both, so that no systemd is needed.

if cgroup_v2; then
  # A child can use a controller only if every directory above it hands it down, and the kubelet wants every one of these
  # that the machine has. We never take that back from the machine's root: somebody else may have come to rely on it.
  mkdir -p "/sys/fs/cgroup/$CGROUP_ROOT"
  for c in cpuset cpu io memory hugetlb pids; do
    grep -qw "$c" /sys/fs/cgroup/cgroup.controllers || continue
    for d in /sys/fs/cgroup "/sys/fs/cgroup/$CGROUP_ROOT"; do
      grep -qw "$c" "$d/cgroup.subtree_control" || echo "+$c" >"$d/cgroup.subtree_control" ||
        echo "the cgroup controller $c cannot be handed down from $d"
    done
  done
else
  for d in /sys/fs/cgroup/*/; do
    case "$d" in */unified/) ;; *) mkdir -p "$d$CGROUP_ROOT" ;; esac
  done
  # A new cpuset is empty, and nothing can run in it until it has processors and memory.
  for f in cpuset.cpus cpuset.mems; do
    [ ! -e "/sys/fs/cgroup/cpuset/$f" ] || cat "/sys/fs/cgroup/cpuset/$f" >"/sys/fs/cgroup/cpuset/$CGROUP_ROOT/$f"
  done
fi
