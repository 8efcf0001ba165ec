#!/bin/bash
# node-fault.sh stop|pause|resume|cut|join|lose|deliver: what happens to machines, for the node CLUSTER_NODE.
#   stop          it is switched off; node-start.sh brings it back with its disk
#   pause, resume its processes stand still, as those of an overloaded machine; only the kernel accepts connections
#   cut, join     its network cable is pulled, and plugged in again
#   lose, deliver 20 % of the packets to the node are lost, and none again
# For example: CLUSTER_NODE=2 hack/cluster/node-fault.sh cut
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
node=$(node_pid) || die "node $NODE of the cluster $CLUSTER_NAME is not up"
port() { nsenter -t "$(switch_pid)" -n ip link set "port$NODE" "$1"; }
# A signal to process -1 reaches every process of the pid namespace but its first one, which only waits.
signal() { nsenter -t "$node" -p -m -- bash -c "kill -$1 -1"; }
# A rule in the network namespace of the node, which goes with the node.
loss() { # -I or -D
  local f
  for f in $FAMILIES; do
    nsenter -t "$node" -n -m "$(if [ "$f" = 4 ]; then echo iptables; else echo ip6tables; fi)" -w 10 -t raw "$1" PREROUTING -i eth0 -m statistic --mode random --probability 0.2 -j DROP
  done
}
case "${1:-}" in
  stop)
    kill -9 "$node"
    gone() { [ ! -d "/proc/$node" ]; }
    until_ok 30 "node $NODE to end" gone || die "node $NODE does not end"
    ;;
  pause) signal STOP ;;
  resume) signal CONT ;;
  cut) port down ;;
  join) port up ;;
  lose) loss -I ;;
  deliver) loss -D ;;
  *) die "usage: CLUSTER_NODE=N node-fault.sh stop|pause|resume|cut|join|lose|deliver" ;;
esac
