#!/bin/bash
# node.sh: the first process of a node's namespaces (mount, net, pid, uts, ipc); started by node-start.sh only. It starts the
# daemons, on node 1 also those of Kubernetes' control plane, and becomes `pause`, so that ending this one process ends
# everything that ever ran on the node.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
exec >>"$NODE_LOGS/node.log" 2>&1
mkdir -p "$NODE_STATE"/{tmp,kubelet,log,log/pods,log/containers,containerd,cni,cni.d,fake}

# Private to this machine's mounts, but shared within the node, which pods with mount propagation need.
mount --make-rprivate /
mount --make-rshared /
echo "$NODE_NAME" >/proc/sys/kernel/hostname

# Hard-coded paths of some components, redirected into $STATE, in this mount namespace only.
mount --bind "$NODE_STATE/kubelet" /var/lib/kubelet
mount --bind "$NODE_STATE/cni" /var/lib/cni
mount --bind "$NODE_STATE/log" /var/log
mount -t tmpfs tmpfs /run
mkdir -p /run/containerd /run/netns
# Killed processes leave their temporary files here and not in the machine's /tmp.
export TMPDIR="$NODE_STATE/tmp" XDG_RUNTIME_DIR=/run

# The kubelet requires these kernel settings and would change those of the machine, so mount files with these values.
for kv in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  f="$NODE_STATE/fake/$(echo "${kv%%=*}" | tr / _)"
  echo "${kv##*=}" >"$f"
  mount --bind "$f" "/proc/sys/${kv%%=*}"
done

. "$HERE/cgroups.sh"

ip link set lo up
until_ok 20 "the node's end of the veth" ip link show eth0
ip link set eth0 up
for f in $FAMILIES; do
  # Nobody else has an IPv6 address of ours, so it is used at once.
  # shellcheck disable=SC2046
  ip addr add "$(node_address "$f" "$NODE")/$(link_bits "$f")" dev eth0 $([ "$f" = 4 ] || echo nodad)
  ip "-$f" route add default via "$(link_address "$f" 1)"
  for n in $(seq "$NODES"); do [ "$n" = "$NODE" ] || ip "-$f" route add "$(node_pods "$f" "$n")" via "$(node_address "$f" "$n")"; done
done
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
echo 1 >/proc/sys/net/bridge/bridge-nf-call-ip6tables

run() { # name command...: keeps it running, its output in $NODE_LOGS/name.log
  local n="$1"
  shift
  (
    while :; do
      "$@" >>"$NODE_LOGS/$n.log" 2>&1 || true
      echo "$(date +%T) $n exited"
      sleep 0.5
    done
  ) &
}

# With Go's default (100), kube-apiserver spends 15 % of its processor time on garbage collection (perf).
export GOGC=300
K="$STATE/pki"
if [ "$NODE" = 1 ]; then
  run etcd "$BIN/etcd" --data-dir "$STATE/etcd" --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync --log-level warn
  run kube-apiserver "$BIN/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --service-cluster-ip-range "$SVC_CIDRS" \
    --advertise-address "$NODE_IP" --secure-port 6443 --client-ca-file "$K/ca.crt" \
    --tls-cert-file "$K/apiserver.crt" --tls-private-key-file "$K/apiserver.key" \
    --kubelet-certificate-authority "$K/ca.crt" --kubelet-client-certificate "$K/apiserver-kubelet-client.crt" \
    --kubelet-client-key "$K/apiserver-kubelet-client.key" --kubelet-preferred-address-types InternalIP \
    --service-account-issuer https://kubernetes.default.svc.cluster.local --service-account-key-file "$K/sa.pub" \
    --service-account-signing-key-file "$K/sa.key" --authorization-mode Node,RBAC \
    --requestheader-client-ca-file "$K/front-ca.crt" --requestheader-allowed-names front-proxy-client \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- --proxy-client-cert-file "$K/front-proxy.crt" \
    --proxy-client-key-file "$K/front-proxy.key" --enable-admission-plugins NodeRestriction --allow-privileged=true --profiling=false
fi

for d in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do if [ -x "$d/bridge" ]; then CNI_BIN="$d"; break; fi; done
cat >"$NODE_STATE/containerd.toml" <<Y
version = 2
root = "$NODE_STATE/containerd"
state = "/run/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  restrict_oom_score_adj = true # Where CAP_SYS_RESOURCE is missing, a lower score than our own cannot be set.
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI_BIN"
    conf_dir = "$NODE_STATE/cni.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
Y
pod_range() { echo "[{\"subnet\": \"$(node_pods "$1" "$NODE")\"}]"; }
pod_route() { if [ "$1" = 4 ]; then echo '{"dst": "0.0.0.0/0"}'; else echo '{"dst": "::/0"}'; fi; }
cat >"$NODE_STATE/cni.d/10-bridge.conflist" <<Y
{"cniVersion": "1.0.0", "name": "coder-k8s", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [$(each pod_range)], "routes": [$(each pod_route)]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
Y
run containerd containerd --config "$NODE_STATE/containerd.toml"
until_ok 60 containerd ctr version
# A node that was stopped has them on its disk.
[ -e "$NODE_STATE/images.loaded" ] || for i in pause busybox coredns postgres-client "coder-$CODER_VERSION" "workspace-$CODER_VERSION"; do ctr -n k8s.io images import "$IMAGES/$i.tar"; done
touch "$NODE_STATE/images.loaded"
until_ok 120 "the API server" kubectl_admin get --raw /readyz

if [ "$NODE" = 1 ]; then
  run kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig "$STATE/controller-manager.kubeconfig" \
    --authentication-kubeconfig "$STATE/controller-manager.kubeconfig" --authorization-kubeconfig "$STATE/controller-manager.kubeconfig" \
    --service-account-private-key-file "$K/sa.key" --root-ca-file "$K/ca.crt" --cluster-signing-cert-file "$K/ca.crt" \
    --cluster-signing-key-file "$K/ca.key" --use-service-account-credentials --cluster-cidr "$POD_CIDRS" --allocate-node-cidrs=false \
    --leader-elect=false --bind-address 127.0.0.1 --kube-api-qps 300 --kube-api-burst 600 --concurrent-gc-syncs 5 \
    --flex-volume-plugin-dir "$NODE_STATE/volume-plugins"
  run kube-scheduler "$BIN/kube-scheduler" --kubeconfig "$STATE/scheduler.kubeconfig" \
    --authentication-kubeconfig "$STATE/scheduler.kubeconfig" --authorization-kubeconfig "$STATE/scheduler.kubeconfig" \
    --leader-elect=false --bind-address 127.0.0.1
fi

cat >"$NODE_STATE/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: "$NODE_IP"
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $K/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $K/kubelet-$NODE-server.crt
tlsPrivateKeyFile: $K/kubelet-$NODE-server.key
clusterDNS: ["$DNS_IP"]
clusterDomain: cluster.local
resolvConf: $NODE_STATE/resolv.conf
volumePluginDir: $NODE_STATE/volume-plugins
cgroupDriver: cgroupfs
cgroupRoot: /$NODE_CGROUP
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
podCIDR: "$(each node_pods "$NODE")"
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
nodeStatusUpdateFrequency: 5s
fileCheckFrequency: 0s
serializeImagePulls: false
shutdownGracePeriod: 0s
Y
: >"$NODE_STATE/resolv.conf"
run kubelet "$BIN/kubelet" --config "$NODE_STATE/kubelet.yaml" --kubeconfig "$STATE/kubelet-$NODE.kubeconfig" \
  --hostname-override "$NODE_NAME" --node-ip "$NODE_IPS" --node-labels "topology.kubernetes.io/zone=zone-$NODE"

cat >"$NODE_STATE/proxy.yaml" <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${PROXY_MODE:-nftables}
bindAddress: "$(if [ "$CLUSTER_FAMILY" = ipv6 ]; then echo ::; else echo 0.0.0.0; fi)"
clientConnection: {kubeconfig: $STATE/proxy.kubeconfig}
clusterCIDR: "$POD_CIDRS"
hostnameOverride: $NODE_NAME
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
Y
run kube-proxy "$BIN/kube-proxy" --config "$NODE_STATE/proxy.yaml"
# It enforces NetworkPolicies, and does nothing else. It ends if its node is not registered yet, and up.sh counts that.
until_ok 120 "the node to be registered" kubectl_admin get node "$NODE_NAME"
# Its release 2.1.0, the only one that the module proxy serves, has two faults with IPv6: its rules lack the prefix inet6: in the
# names of its sets, and refuse the neighbor discovery of pods with policies, which IPv4 has in ARP.
mkdir -p "$NODE_STATE/kube-router"
cat >"$NODE_STATE/kube-router/ip6tables-restore" <<Y
#!/bin/sh
rules=
for chain in INPUT FORWARD OUTPUT; do for type in 135 136; do
  rules="\$rules-A KUBE-ROUTER-\$chain -p ipv6-icmp -m icmp6 --icmpv6-type \$type -m comment --comment neighbors -j ACCEPT\\\\n"
done; done
sed "/--comment neighbors/d; s/--match-set KUBE-/--match-set inet6:KUBE-/g; 0,/^-A /s/^-A /\$rules&/" | exec "$(command -v ip6tables-restore)" "\$@"
Y
chmod +x "$NODE_STATE/kube-router/ip6tables-restore"
run kube-router env "PATH=$NODE_STATE/kube-router:$PATH" "$BIN/kube-router" --kubeconfig "$KUBECONFIG_ADMIN" --hostname-override "$NODE_NAME" --service-cluster-ip-range "$SVC_CIDRS" \
  "--enable-ipv4=$([[ "$FAMILIES" == *4* ]] && echo true || echo false)" "--enable-ipv6=$([[ "$FAMILIES" == *6* ]] && echo true || echo false)"
[ "$NODE" != 1 ] || run volumes "$HERE/volumes.sh"
exec "$BIN/pause"
