#!/bin/bash
# lifecycle-test.sh [CYCLES]: starts, interrupts, kills and stops an instance of its own at many points and checks each
# time that nothing is left of it and that the next start works. Needs root; about 3 min once everything is built.
set -euo pipefail
export CLUSTER_NAME=life
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
OUT=$(mktemp -d)
trap '"$HERE/down.sh" >/dev/null; rm -rf "$OUT"' EXIT

# What the machine looks like without us, to the directory and the route.
picture() {
  find /sys/fs/cgroup -type d | grep -v "/coder-k8s-" | sort
  ip route
  awk '{print $1, $2, $3}' /proc/self/mounts
  ls /sys/class/net
  ls -d /usr/sbin/policy-rc.d 2>/dev/null || true
  # Another instance needs these two as well.
  [ -n "$(find "$STATES" -mindepth 1 -maxdepth 1 -type d ! -name "$CLUSTER_NAME")" ] || ls -d /var/lib/kubelet /var/lib/cni 2>/dev/null || true
}
fail() { tail_of "$OUT"/*.log; die "$*"; }
nothing_left() { # after what
  "$HERE/leftovers.sh" || fail "something is left after $1"
  # Another instance may run: its interface and routes are not ours to compare.
  diff <(grep -v 'ck-' "$OUT/before") <(picture | grep -v 'ck-') || fail "the machine is not as before after $1"
}
picture >"$OUT/before"

for i in $(seq "${1:-5}"); do
  RUN_STARTED=$EPOCHREALTIME "$HERE/up.sh" >"$OUT/up.log" 2>&1 || fail "start $i failed"
  up=$(tail -n 1 "$OUT/up.log")
  RUN_STARTED=$EPOCHREALTIME "$HERE/down.sh" >"$OUT/down.log" 2>&1 || fail "stop $i failed"
  nothing_left "cycle $i"
  step "cycle $i: up ${up%%]*}], down $(sed 's/].*/]/' "$OUT/down.log" | tail -n 1), nothing left"
done

# Killed, then stopped.
for after in 0.1 0.6 1.2 1.7 2.2 3 4 5 6.5; do
  setsid "$HERE/up.sh" >"$OUT/up.log" 2>&1 &
  pid=$!
  sleep "$after"
  kill -9 "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  "$HERE/down.sh" >"$OUT/down.log" 2>&1 || fail "stop after a kill at $after s failed"
  nothing_left "a kill at $after s"
  step "killed after $after s, then stopped: nothing left"
done

# Interrupted as by Ctrl-C (the whole process group gets it): it takes itself down.
for after in 0.7 1.5 2.5 4 6; do
  # A background job ignores SIGINT by default.
  setsid env --default-signal=INT "$HERE/up.sh" >"$OUT/up.log" 2>&1 &
  pid=$!
  sleep "$after"
  kill -INT -- "-$pid" 2>/dev/null || true
  if wait "$pid"; then
    step "not interrupted at $after s: it had ended already"
    "$HERE/down.sh" >/dev/null
    continue
  fi
  nothing_left "an interrupt at $after s"
  step "interrupted after $after s: took itself down, nothing left"
done

# Killed, then started again over its leftovers.
for after in 1.4 2.6 5; do
  "$HERE/down.sh" >/dev/null
  setsid "$HERE/up.sh" >"$OUT/up.log" 2>&1 &
  pid=$!
  sleep "$after"
  kill -9 "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  "$HERE/up.sh" >"$OUT/up.log" 2>&1 || fail "the start after a kill at $after s failed"
  grep -q 'removing the leftovers' "$OUT/up.log" || fail "the leftovers of a start killed at $after s were not noticed"
  step "killed after $after s, then started over its leftovers"
done

# The node dies while it runs: the next start does not take the rest for a running cluster.
kill -9 "$(node_pid)"
"$HERE/up.sh" >"$OUT/up.log" 2>&1 || fail "the start after the death of the node failed"
grep -q 'removing the leftovers' "$OUT/up.log" || fail "the leftovers of a dead node were not noticed"
step "the node killed, then started over its leftovers"

# Two starts at once: one of them starts it, the other says why not.
"$HERE/down.sh" >/dev/null
"$HERE/up.sh" >"$OUT/first.log" 2>&1 &
first=$!
"$HERE/up.sh" >"$OUT/second.log" 2>&1 && second=0 || second=$?
wait "$first" && first=0 || first=$?
[ $((first + second)) = 1 ] || fail "of two starts at once, $first and $second are the exit codes"
step "two starts at once: $(grep -h '^error' "$OUT"/{first,second}.log)"

"$HERE/down.sh" >/dev/null
"$HERE/down.sh" >"$OUT/down.log"
nothing_left "everything"
step "stopped twice: nothing left"
