# shellcheck shell=bash
# preconditions.sh: the preconditions of up.sh, each with an error message that explains what to do; sourced.

[ "$(uname -s)" = Linux ] || die "the cluster needs Linux, and this is $(uname -s): use CLUSTER=existing with a cluster of your own"
case "$(uname -m)" in
  x86_64 | aarch64) ;;
  *) die "the cluster is built for amd64 and arm64, and this machine is $(uname -m)" ;;
esac
[ "$(id -u)" = 0 ] || die "the cluster needs root for its namespaces, network interface and cgroups: run it with sudo env \"PATH=\$PATH\" make demo, or use CLUSTER=existing with a cluster of your own"
command -v go >/dev/null || die "Go is not installed or not in PATH: everything here is built with it (go.dev/dl, 1.26 or newer; sudo hides it unless it is run as sudo env \"PATH=\$PATH\")"
go_version=$(go env GOVERSION)
case "$go_version" in
  go1.2[6-9]* | go1.[3-9][0-9]* | go[2-9]*) ;;
  *) die "Go 1.26 or newer is needed, and $(command -v go) is $go_version" ;;
esac
unshare --mount --net --pid --uts --ipc --fork true 2>/dev/null ||
  die "this machine does not let root make new namespaces (a container without --privileged?): use CLUSTER=existing with a cluster of your own"

if cgroup_v2; then
  for c in cpuset cpu memory pids; do
    grep -qw "$c" /sys/fs/cgroup/cgroup.controllers || die "the cgroup v2 controller $c is not available in /sys/fs/cgroup/cgroup.controllers: the kubelet needs it"
  done
else
  for c in cpu cpuset memory devices freezer pids; do
    [ -d "/sys/fs/cgroup/$c" ] || die "the cgroup v1 controller $c is not mounted at /sys/fs/cgroup/$c: the kubelet needs it"
  done
fi

# The name of the interface, its addresses and the port must be free, or used by our own leftovers.
if foreign=$(foreign_interface); then
  die "the network interface $VETH exists and is not ours ($foreign): remove it (ip link del $VETH) or choose another CLUSTER_NAME"
fi
for other in "$STATES"/*/; do
  other=$(basename "$other")
  if [ "$other" = "$CLUSTER_NAME" ] || [ "$(cat "$STATES/$other/index" 2>/dev/null)" != "$CLUSTER_INDEX" ]; then continue; fi
  die "the instance \"$other\" uses the same addresses (index $CLUSTER_INDEX): set CLUSTER_INDEX to another number from 11 to 99, or stop it"
done
# Our own interface has these networks while we run, and so do leftovers: they are removed below.
if [ ! -e "/sys/class/net/$VETH" ]; then
  for cidr in $(for f in $FAMILIES; do link_cidr "$f"; pod_cidr "$f"; svc_cidr "$f"; done); do
    if taken=$(route_into "${cidr%/*}"); then
      die "the network $cidr is already routed on this machine through $taken: set CLUSTER_OCTET to another second octet than $OCTET"
    fi
  done
fi

# The measured disk space of the first build: 7 GB of Go's build cache, 5 GB of modules, 1 GB of programs and images.
# A started cluster takes 1 GB more.
need_gb=2
[ -n "$(ls "$BIN"/.kube.built "$CODER.built" 2>/dev/null)" ] || [ -d "$(go env GOMODCACHE)/github.com/coder/coder/v2@v$CODER_VERSION" ] || need_gb=13
mkdir -p "$CACHE"
free_gb=$(($(df -Pk "$CACHE" | awk 'NR == 2 {print $4}') / 1048576))
[ "$free_gb" -ge "$need_gb" ] ||
  die "$CACHE has $free_gb GB of free disk and $need_gb GB are needed: make room, or set CODER_K8S_CACHE, GOCACHE and GOMODCACHE to a larger disk"
