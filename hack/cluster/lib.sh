# shellcheck shell=bash
# lib.sh: functions of the scripts for output, waiting, and finding their own processes. Sourced after settings.sh.

# One clock for a whole run: a script passes it to the scripts that it calls.
export RUN_STARTED="${RUN_STARTED:-$EPOCHREALTIME}"

step() { # message: one line with the time since the run started
  local us=$((${EPOCHREALTIME/[.,]/} - ${RUN_STARTED/[.,]/}))
  printf '[%4d.%d s] %s\n' $((us / 1000000)) $((us / 100000 % 10)) "$*"
}

die() { # message: the reason, in one sentence
  printf 'error: %s\n' "$*" >&2
  exit 1
}

tail_of() { # log...: the end of each, on stderr
  local f
  for f in "$@"; do
    [ -s "$f" ] || continue
    printf -- '--- the end of %s\n' "$f" >&2
    tail -n 15 "$f" | cut -c1-400 >&2
  done
}

# watched LOG NAME COMMAND...: runs COMMAND with its output in LOG, and prints its progress every 10 s: PROGRESS is
# the name of a function that prints it (default: the last line of LOG). On failure: the log's end, and status 1.
watched() {
  local log="$1" name="$2" start=$SECONDS pid beat status=0
  shift 2
  mkdir -p "$(dirname "$log")"
  "$@" >>"$log" 2>&1 </dev/null 9>&- &
  pid=$!
  (
    # Ends with the command, also if this script was killed.
    while sleep 10 && kill -0 "$pid" 2>/dev/null; do
      step "  $name: $((SECONDS - start)) s so far; $("${PROGRESS:-last_line}" "$log")"
    done
  ) 9>&- &
  beat=$!
  wait "$pid" || status=$?
  kill "$beat" 2>/dev/null || true
  wait "$beat" 2>/dev/null || true
  [ "$status" = 0 ] && return
  tail_of "$log"
  return 1
}

last_line() { printf 'now: %s' "$(tail -n 1 "$1" 2>/dev/null | cut -c1-120)"; }

# go_plan DIRECTORY FLAG... -- PACKAGE...: what a build of these packages into DIRECTORY consists of, for go_progress.
go_plan() {
  local out="$1" flags=()
  shift
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  echo "packages in all: $(go list -deps "${flags[@]}" "$@" | wc -l)"
  GOBIN="$out" go list -f 'program: {{.ImportPath}} {{.Target}}' "${flags[@]}" "$@"
  echo "started: $(date +%s)"
}

# Prints the progress of a `go build -v` or `go install -v` from its log: the log contains each module that is
# downloaded and each package that is compiled, but not what is linked. A program is being linked if its own package
# is compiled and its file is not new. Packages in Go's cache are not in the log, so the number of packages is an
# upper limit.
go_progress() {
  local got compiled total started package file linking=""
  got=$(grep -c '^go: downloading' "$1" || true)
  compiled=$(grep -c '^[a-z][^ ]*$' "$1" || true)
  total=$(sed -n 's/^packages in all: //p' "$1" | tail -n 1)
  started=$(sed -n 's/^started: //p' "$1" | tail -n 1)
  while read -r _ package file; do
    if grep -qxF "$package" "$1" && [ "$(stat -c %Y "$file" 2>/dev/null || echo 0)" -lt "${started:-1}" ]; then
      linking="$linking${linking:+, }${file##*/}"
    fi
  done < <(grep '^program: ' "$1" || true)
  if [ "$compiled" = 0 ]; then
    printf '%s modules downloaded%s' "$got" "${total:+, looking for $total packages in the cache of Go}"
  elif [ "$linking" ]; then
    printf '%s packages compiled%s, linking %s' "$compiled" "${total:+ of at most $total}" "$linking"
  else
    printf '%s packages compiled%s, last: %s' "$compiled" "${total:+ of at most $total}" "$(grep '^[a-z][^ ]*$' "$1" | tail -n 1 | cut -c1-90)"
  fi
}

# until_ok SECONDS WHAT COMMAND...: polls until COMMAND succeeds, and prints WHAT every 10 s. Fails after SECONDS
# (times CLUSTER_PATIENCE, for slow machines), and immediately if the function GIVE_UP succeeds.
until_ok() {
  local limit=$(($1 * ${CLUSTER_PATIENCE:-1})) what="$2" start=$SECONDS said=0
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $((SECONDS - start)) -ge "$limit" ]; then return 1; fi
    if [ -n "${GIVE_UP:-}" ] && "$GIVE_UP"; then return 1; fi
    if [ $(((SECONDS - start) / 10)) -gt "$said" ]; then
      said=$(((SECONDS - start) / 10))
      step "  waiting for $what: $((SECONDS - start)) s so far"
    fi
    sleep 0.2
  done
}

kubectl_admin() { "$BIN/kubectl" --kubeconfig "$KUBECONFIG_ADMIN" "$@"; }

# The host's ids of all processes with our mark, except this script and its parents.
our_processes() {
  local mine=" " p=$BASHPID
  while [ "${p:-0}" -gt 1 ]; do
    mine="$mine$p "
    p=$(sed -n 's/^PPid:\t//p' "/proc/$p/status" 2>/dev/null)
  done
  for p in $({ grep -lzxF "$MARK" /proc/[0-9]*/environ || true; } 2>/dev/null | cut -d/ -f3); do
    case "$mine" in *" $p "*) continue ;; esac
    # Skip children of this script (the grep, a heartbeat) and zombies.
    [ "$(sed -n 's/^PPid:\t//p' "/proc/$p/status" 2>/dev/null)" = "$BASHPID" ] && continue
    grep -q '^State:.*Z' "/proc/$p/status" 2>/dev/null && continue
    [ ! -d "/proc/$p" ] || echo "$p"
  done
}

# The host's id of the first process of the node (CLUSTER_NODE), if it is running and ours: the number alone might belong to
# another process.
node_pid() {
  local p
  p=$(cat "$NODE_STATE/node.pid" 2>/dev/null) || return 1
  grep -qzxF "$MARK" "/proc/$p/environ" 2>/dev/null && echo "$p"
}

# The host's id of the process that holds the network namespace of the switch, which connects this machine and the nodes.
switch_pid() {
  local p
  p=$(cat "$STATE/switch.pid" 2>/dev/null) || return 1
  grep -qzxF "$MARK" "/proc/$p/environ" 2>/dev/null && echo "$p"
}

# Every cgroup directory of ours, in any hierarchy.
our_cgroups() { find /sys/fs/cgroup -maxdepth 2 -type d \( -name "$CGROUP_ROOT" -o -name "$CGROUP_ROOT.[2-4]" \) 2>/dev/null; }

cgroup_v2() { [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; }

# take_lock SECONDS: one `up` or `down` of an instance at a time. The lock ends with the process that holds it; its
# commands do not inherit it (9>&-), so a killed `up` releases it.
take_lock() {
  mkdir -p "$(dirname "$LOCK")"
  exec 9>>"$LOCK"
  flock -w "$1" 9 || return 1
  echo "$$" >"$LOCK"
}

# listening PORT: whether any program of this machine listens on the TCP port, at whatever address; needs no tool.
listening() {
  awk -v port="$(printf ':%04X' "$1")" '$4 == "0A" && substr($2, length($2) - 4) == port {found = 1} END {exit !found}' \
    /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# The owner's name of an interface that has our name but is not ours; fails if there is none. An interface that was never
# named ours may be one of an `up` killed in the middle: it goes with its switch, so it is waited for.
foreign_interface() {
  local alias
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -e "/sys/class/net/$VETH" ] || return 1
    alias=$(cat "/sys/class/net/$VETH/ifalias" 2>/dev/null || true)
    [ "$alias" = "$VETH_ALIAS" ] && return 1
    [ -z "$alias" ] && [ -n "$(our_processes)" ] && return 1
    [ -n "$alias" ] && break
    sleep 0.3
  done
  echo "${alias:-it has no alias}"
}

# The interface of a route, other than a default route, that covers the IP address; fails if there is none. Of an IPv6 address
# the first four groups count, in digits of four bits.
route_into() {
  local groups
  if [[ "$1" == *:* ]]; then
    IFS=: read -ra groups <<<"${1%%::*}"
    awk -v ip="$(printf '%04x' "${groups[@]/#/0x}")" '
      { n = (index("0123456789abcdef", substr($2, 1, 1)) * 16 - 16 + index("0123456789abcdef", substr($2, 2, 1)) - 1) / 4; if (n > 16) n = 16 }
      n > 0 && substr($1, 1, n) == substr(ip, 1, n) { print $NF; found = 1; exit }
      END { exit !found }' /proc/net/ipv6_route
    return
  fi
  awk -v ip="$1" '
    function bits(hex,  i, n) { n = 0; for (i = 7; i >= 1; i -= 2) n = n * 256 + index("0123456789ABCDEF", substr(hex, i, 1)) * 16 - 16 + index("0123456789ABCDEF", substr(hex, i + 1, 1)) - 1; return n }
    function size(mask) { return 4294967296 - mask }
    NR > 1 && bits($8) > 0 {
      split(ip, p, "."); a = ((p[1] * 256 + p[2]) * 256 + p[3]) * 256 + p[4]; net = bits($2)
      if (a >= net && a < net + size(bits($8))) { print $1; found = 1; exit }
    }
    END { exit !found }' /proc/net/route
}

# control_plane prints the path of the sample control plane with the Coder that the node has: only what the Go module proxy
# serves can be built, and the sample has the release that users should run. Called from the project's directory.
control_plane() {
  sed "s|^  image: .*|  image: $CODER_IMAGE|" config/samples/codercontrolplane.yaml >"$STATE/codercontrolplane.yaml"
  echo "$STATE/codercontrolplane.yaml"
}
