#!/bin/bash
# sessions.sh NAMESPACE WORKSPACE POD: sessions in a running workspace beside kubectl exec into its pod, and beside coder ssh
# if coder is in PATH and logged in. Uses the cluster of KUBECONFIG, with kubectl and kubectl-coder in PATH.
#   BENCH_ROUNDS=20       commands for the latency        BENCH_MB=100           megabytes each way, three times
#   BENCH_CONCURRENT=50   sessions at once                BENCH_SESSIONS=1000    sessions for the leaks
#   BENCH_METRICS=URL     the operator's metrics, for the leaks; BENCH_TOKEN is a token that may read them
set -euo pipefail
[ $# = 3 ] || { sed -n 2,6p "$0" >&2; exit 2; }
namespace=$1 workspace=$2 pod=$3
rounds=${BENCH_ROUNDS:-20} mb=${BENCH_MB:-100} concurrent=${BENCH_CONCURRENT:-50} sessions=${BENCH_SESSIONS:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ours() { kubectl-coder -n "$namespace" exec "$workspace" "$@"; }
pods() { kubectl -n "$namespace" exec "$pod" "$@"; }
now() { echo "${EPOCHREALTIME/./}"; } # Microseconds.
timed() { # FILE COMMAND...: adds the milliseconds that COMMAND takes to FILE
  local into=$1 from
  from=$(now)
  shift
  "$@"
  echo $((($(now) - from) / 1000)) >>"$into"
}
at() { sort -n "$2" | awk -v p="$1" '{v[NR]=$1} END {n=int(NR*p/100+0.999); print v[n<1?1:n]}'; } # PERCENTILE FILE
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", a/b}'; }

ssh=""
if command -v coder >/dev/null && coder whoami >/dev/null 2>&1; then ssh=$(cut -d. -f2- <<<"$workspace" | tr . /); fi
ours -- true && pods -- sh -c :
for ((i = 0; i < rounds; i++)); do
  timed "$work/true.pods" pods -- sh -c :
  timed "$work/true.ours" ours -- true
  [ -z "$ssh" ] || timed "$work/true.ssh" coder ssh "$ssh" -- true >/dev/null 2>&1
done
for of in pods ours ssh; do
  [ ! -f "$work/true.$of" ] || echo "true, $of: p50 $(at 50 "$work/true.$of") ms, p95 $(at 95 "$work/true.$of") ms"
done
echo "true, ours / kubectl exec: $(ratio "$(at 50 "$work/true.ours")" "$(at 50 "$work/true.pods")")"

# Random bytes, which cannot be compressed.
head -c "${mb}M" /dev/urandom >"$work/sent"
want=$(sha256sum <"$work/sent" | cut -c1-64)
same() { # FILE: has it the bytes that were sent?
  [ "$(sha256sum <"$1" | cut -c1-64)" = "$want" ] || { echo "error: $1 differs from what was sent" >&2; exit 1; }
}
up() { "$1" -i -- sh -c 'cat >/tmp/bench; sha256sum </tmp/bench' <"$work/sent" >"$work/sum"; }
down() { "$1" -- sh -c 'cat /tmp/bench' >"$work/received"; }
for _ in 1 2 3; do
  for of in pods ours; do
    timed "$work/up.$of" up "$of"
    [ "$(cut -c1-64 "$work/sum")" = "$want" ] || { echo "error: what $of wrote differs from what was sent" >&2; exit 1; }
    timed "$work/down.$of" down "$of"
    same "$work/received"
  done
done
for way in up down; do
  echo "$mb MB $way: ours $(at 50 "$work/$way.ours") ms, kubectl exec $(at 50 "$work/$way.pods") ms, ratio" \
    "$(ratio "$(at 50 "$work/$way.ours")" "$(at 50 "$work/$way.pods")")"
done
ours -- rm /tmp/bench

from=$(now)
for ((i = 0; i < concurrent; i++)); do
  (ours -i -- sh -c 'cat; sleep 3' <<<"$i" >"$work/at-once.$i" 2>"$work/at-once.$i.err" && grep -qx "$i" "$work/at-once.$i") && echo ok >>"$work/at-once" &
done
wait
echo "$concurrent sessions at once, 3 s each: $(wc -l <"$work/at-once") succeeded, in $((($(now) - from) / 1000)) ms"

[ -n "${BENCH_METRICS:-}" ] || exit 0
figures() {
  curl -sk -H "Authorization: Bearer ${BENCH_TOKEN:-}" "$BENCH_METRICS" |
    awk '$1=="go_goroutines"{g=$2} $1=="process_open_fds"{f=$2} $1=="process_resident_memory_bytes"{r=$2/1048576} $1=="go_memstats_heap_inuse_bytes"{h=$2/1048576}
      END {printf "%d goroutines, %d open files, %d MB resident, %d MB of heap\n", g, f, r, h}'
}
echo "before: $(figures)"
for ((i = 0; i < sessions; i += 10)); do
  for ((j = 0; j < 10; j++)); do (ours -- true 2>>"$work/errors" && echo ok >>"$work/many") & done
  wait
done
# Coder accepts 512 requests per minute for one workspace, and each session is one request.
echo "after $sessions sessions, of which $(wc -l <"$work/many") were not refused: $(figures)"
sleep 150 # Until the connection, which nobody uses, is closed.
echo "after the connection to the agent is closed: $(figures)"
