# shellcheck shell=bash disable=SC2034
# settings.sh: every name, address, path and version of the cluster, in one place. Sourced, never run.
#
# Everything that belongs to one running cluster derives from its instance name, CLUSTER_NAME, so several run side by side:
# "demo" (make demo) has the index 1 and "e2e-1" to "e2e-9" (make test-e2e) have 2 to 10, any other name gets one from its
# checksum, or from CLUSTER_INDEX (1 to 99). With index I and CLUSTER_OCTET 201 (the default) an instance uses
#   10.201.I.0/29  this machine (.1) and the nodes (.2 to .5)   10.202.I.0/24  pods   10.203.I.0/24  Services
# and PostgreSQL's port 25431+I. Change CLUSTER_OCTET if one of those networks is already yours. With CLUSTER_FAMILY=ipv6 these
# networks are fdc0:de:201:I::/64, fdc0:de:202:I::/64 and fdc0:de:203:I::/112, and with CLUSTER_FAMILY=dual both.

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# Every build has the same flags, so that all share compiled packages: with -trimpath, also with a clone in another
# directory. The race detector needs cgo, so test/run.sh sets CGO_ENABLED=1 for the tests. With fewer garbage
# collections the compiler needs 20% less processor time, and up to 200 MB more. A -tags on the command line replaces
# the tags here, so it must repeat OPERATOR_TAGS.
OPERATOR_TAGS=$(sed -n 's/^TAGS := //p' "$HERE/../../Makefile")
export GOFLAGS="-trimpath -buildvcs=false -tags=$OPERATOR_TAGS '-toolexec=env GOGC=300'" CGO_ENABLED=0

KUBE_VERSION=1.37.0
# The release of Coder. The Go module proxy serves 2.29.1, 2.30.0, 2.36.0 and 2.36.1 of those that users run; one cache has
# as many as were chosen. internal/upgrade/supported.yaml names the default, and a test compares.
CODER_VERSION="${CODER_VERSION:-2.36.1}"
if ! [[ "$CODER_VERSION" =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then echo "error: CODER_VERSION \"$CODER_VERSION\" must be a release such as 2.36.1" >&2; exit 1; fi
TERRAFORM_VERSION=1.5.7  # The last release under the MPL; Coder 2.29 to 2.36 accept 1.1.0 to 1.14.9.
PROVIDER_VERSION=2.13.1  # The coder/coder Terraform provider.
KUBERNETES_PROVIDER_VERSION=1.13.4  # hashicorp/kubernetes: the newest that the Go module proxy serves.

# Built programs and images, shared by all instances.
CACHE="${CODER_K8S_CACHE:-${HOME:-/root}/.cache/coder-k8s}"
BIN="$CACHE/bin"
IMAGES="$CACHE/images"
MIRROR="$CACHE/mirror"
CODER="$BIN/coder-$CODER_VERSION"

# One instance.
CLUSTER_NAME="${CLUSTER_NAME:-demo}"
case "$CLUSTER_NAME" in
  *[!a-z0-9-]* | -* | *- | "" | ?????????????*) # At most 12 characters: a network interface's name has 15.
    echo "error: CLUSTER_NAME \"$CLUSTER_NAME\" must be 1 to 12 of a-z, 0-9 and -, with no - at either end" >&2
    exit 1 ;;
  demo) CLUSTER_INDEX=1 ;;
  e2e-[1-9]) CLUSTER_INDEX=$((${CLUSTER_NAME#e2e-} + 1)) ;;
  *) CLUSTER_INDEX="${CLUSTER_INDEX:-$(($(printf %s "$CLUSTER_NAME" | cksum | cut -d' ' -f1) % 89 + 11))}" ;;
esac
OCTET="${CLUSTER_OCTET:-201}"
within() { # name value low high
  if ! [ "$2" -ge "$3" ] 2>/dev/null || [ "$2" -gt "$4" ]; then echo "error: $1 \"$2\" must be a number from $3 to $4" >&2; exit 1; fi
}
within CLUSTER_INDEX "$CLUSTER_INDEX" 1 99
within CLUSTER_OCTET "$OCTET" 1 253
NODE="${CLUSTER_NODE:-1}"  # The node that a script is about. Node 1 has the control plane of Kubernetes.
within CLUSTER_NODE "$NODE" 1 4

STATES="$CACHE/state"
STATE="$STATES/$CLUSTER_NAME"          # Everything of the running cluster; removed when it ends.
LOGS="$CACHE/logs/$CLUSTER_NAME"       # Outlives it, so that a failure can be read; emptied by the next start.
LOCK="$CACHE/lock/$CLUSTER_NAME"       # Held while an `up` or `down` of this instance runs.
MARK="CODER_K8S_CLUSTER_STATE=$STATE"  # In the environment of every process that we start: that makes it provably ours.

# How many nodes the instance has: what the running one was started with.
NODES="${CLUSTER_NODES:-$(cat "$STATE/nodes" 2>/dev/null || echo 1)}"
within CLUSTER_NODES "$NODES" 1 4
node_name() { if [ "$1" = 1 ]; then echo "$CLUSTER_NAME-node"; else echo "$CLUSTER_NAME-node-$1"; fi; }

# The IP families of the nodes, pods and Services: what the running instance was started with.
CLUSTER_FAMILY="${CLUSTER_FAMILY:-$(cat "$STATE/family" 2>/dev/null || echo ipv4)}"
case "$CLUSTER_FAMILY" in
  ipv4) FAMILIES=4 ;;
  ipv6) FAMILIES=6 ;;
  dual) FAMILIES="4 6" ;;
  *) echo "error: CLUSTER_FAMILY \"$CLUSTER_FAMILY\" must be ipv4, ipv6 or dual" >&2; exit 1 ;;
esac
# In a family, 4 or 6: the beginning of the addresses of the nodes (0), the pods (1) or the Services (2), the networks of the
# nodes, pods and Services, and the address and the pods of a node. With several nodes a node has a quarter of the IPv4 addresses.
prefix() { if [ "$1" = 4 ]; then echo "10.$((OCTET + $2)).$CLUSTER_INDEX."; else echo "fdc0:de:$((OCTET + $2)):$CLUSTER_INDEX:"; fi; }
link_bits() { if [ "$1" = 4 ]; then echo 29; else echo 64; fi; }
link_cidr() { if [ "$1" = 4 ]; then echo "$(prefix 4 0)0/29"; else echo "$(prefix 6 0):/64"; fi; }
pod_cidr() { if [ "$1" = 4 ]; then echo "$(prefix 4 1)0/24"; else echo "$(prefix 6 1):/64"; fi; }
# CLUSTER_SVC_CIDR is for more than 254 Services of IPv4.
svc_cidr() { if [ "$1" = 4 ]; then echo "${CLUSTER_SVC_CIDR:-$(prefix 4 2)0/24}"; else echo "$(prefix 6 2):/112"; fi; }
svc_address() { if [ "$1" = 4 ]; then echo "$(svc_cidr 4 | sed 's|0/.*||')$2"; else echo "$(prefix 6 2):$2"; fi; }
link_address() { if [ "$1" = 4 ]; then echo "$(prefix 4 0)$2"; else echo "$(prefix 6 0):$2"; fi; }
node_address() { link_address "$1" "$(($2 + 1))"; }
node_pods() { if [ "$NODES" = 1 ]; then pod_cidr "$1"; elif [ "$1" = 4 ]; then echo "$(prefix 4 1)$((64 * ($2 - 1)))/26"; else echo "$(prefix 6 1)$2::/80"; fi; }
# each FUNCTION ARGUMENT...: what it prints for each family of the instance, separated by commas.
each() {
  local family all=""
  for family in $FAMILIES; do all="$all${all:+,}$("$1" "$family" "${@:2}")"; done
  echo "$all"
}
node_ip() { node_address "${FAMILIES%% *}" "$1"; }
NODE_NAME=$(node_name "$NODE")
NODE_IP=$(node_ip "$NODE")
NODE_IPS=$(each node_address "$NODE")
NODE_STATE="$STATE" NODE_LOGS="$LOGS"
[ "$NODE" = 1 ] || NODE_STATE="$STATE/node-$NODE" NODE_LOGS="$LOGS/node-$NODE"
API_IP=$(node_ip 1)                    # The API server is https://$(in_url "$API_IP"):6443.
VETH="ck-$CLUSTER_NAME"                # This machine's end of the veth. The other end is a port of the switch, as is that of each node.
VETH_ALIAS="coder-k8s $STATE"          # Says that the interface is ours.
CGROUP_ROOT="coder-k8s-$CLUSTER_NAME"  # The kubelet's cgroups live under /<controller>/<this> (v1) or /<this> (v2).
NODE_CGROUP="$CGROUP_ROOT"             # Those of node 1; of node N they are in <this>.N.
[ "$NODE" = 1 ] || NODE_CGROUP="$CGROUP_ROOT.$NODE"
HOST_IPS=$(each link_address 1)        # Pods reach servers of this machine here.
HOST_IP="${HOST_IPS%%,*}"
in_url() { case "$1" in *:*) echo "[$1]" ;; *) echo "$1" ;; esac; }  # An IPv6 address has brackets in a URL.
POD_CIDRS=$(each pod_cidr)
SVC_CIDRS=$(each svc_cidr)
API_SVC_IP=$(svc_address "${FAMILIES%% *}" 1)
DNS_IP=$(svc_address "${FAMILIES%% *}" 10)
PG_PORT=$((25431 + CLUSTER_INDEX))  # Below 32768, where the kernel chooses ports for connections.
KUBECONFIG_ADMIN="$STATE/admin.kubeconfig"

# The images, without a registry: the node has them by name only.
PAUSE_IMAGE=coder-k8s.local/pause:1
BUSYBOX_IMAGE=coder-k8s.local/busybox:1
COREDNS_IMAGE=coder-k8s.local/coredns:1
# pg_dump, pg_restore and psql of Debian, for backups: the default image cannot be pulled here.
POSTGRES_IMAGE=coder-k8s.local/postgres-client:1
# For workspaces: the usual shell tools, and Coder's agent, which must not be newer than the Coder that it reports to.
WORKSPACE_IMAGE="coder-k8s.local/workspace:$CODER_VERSION"
WORKSPACE_PACKAGES="base-files bash ca-certificates coreutils curl dash diffutils findutils git grep gzip less mawk nano openssh-client procps python3 rsync sed tar"
CODER_IMAGE="ghcr.io/coder/coder:v$CODER_VERSION"
# For tests: the version of src/broken-coder.sh, whose server ends at once. It is only in the file broken-coder.tar.
BROKEN_CODER_IMAGE="ghcr.io/coder/coder:v2.99.0"
