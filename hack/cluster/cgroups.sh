# shellcheck shell=bash
# cgroups.sh: creates the cgroup under which the kubelet puts its pods; sourced by node.sh. It supports cgroup v1 and
# v2, with the driver cgroupfs for both, so that no systemd is needed. Without a larger share, all pods of a cluster together
# would get as much processor time as a single process of the machine: on a busy one, probes of pods then time out.

if cgroup_v2; then
  # A child can use a controller only if every directory above it delegates it, and the kubelet requires all of these
  # that the machine has. The delegation in the machine's root is never reverted, because other programs may rely on
  # it.
  mkdir -p "/sys/fs/cgroup/$NODE_CGROUP"
  for c in cpuset cpu io memory hugetlb pids; do
    grep -qw "$c" /sys/fs/cgroup/cgroup.controllers || continue
    for d in /sys/fs/cgroup "/sys/fs/cgroup/$NODE_CGROUP"; do
      grep -qw "$c" "$d/cgroup.subtree_control" || echo "+$c" >"$d/cgroup.subtree_control" ||
        echo "the cgroup controller $c cannot be handed down from $d"
    done
  done
  echo 400 >"/sys/fs/cgroup/$NODE_CGROUP/cpu.weight"
else
  for d in /sys/fs/cgroup/*/; do
    case "$d" in */unified/) ;; *) mkdir -p "$d$NODE_CGROUP" ;; esac
  done
  # A new cpuset is empty, and no process can run in it until it has processors and memory.
  for f in cpuset.cpus cpuset.mems; do
    [ ! -e "/sys/fs/cgroup/cpuset/$f" ] || cat "/sys/fs/cgroup/cpuset/$f" >"/sys/fs/cgroup/cpuset/$NODE_CGROUP/$f"
  done
  echo 4096 >"/sys/fs/cgroup/cpu/$NODE_CGROUP/cpu.shares"
fi
