#!/bin/bash
# packages.sh: installs the Debian packages whose programs are missing, and only those; needs root.
#
# Some of them (PostgreSQL, containerd) start a service when they are installed. A policy-rc.d prevents this while
# apt-get runs; otherwise Debian's PostgreSQL would use port 5432.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
POLICY=/usr/sbin/policy-rc.d

remove_policy() { if grep -qs 'coder-k8s' "$POLICY"; then rm -f "$POLICY"; fi; }
if [ "${1:-}" = --clean ]; then
  remove_policy  # Of an installation that was killed.
  exit
fi

# program[|program]=package: the first program found is enough.
missing_packages() {
  local line program
  while read -r line; do
    for program in $(echo "${line%%=*}" | tr '|' ' '); do
      compgen -G "$program" >/dev/null && continue 2
      command -v "$program" >/dev/null && continue 2
    done
    echo "${line##*=}"
  done <<'LIST'
containerd=containerd
ctr=containerd
runc=runc
/usr/lib/cni/bridge|/opt/cni/bin/bridge|/usr/libexec/cni/bridge=containernetworking-plugins
iptables=iptables
ipset=ipset
nft=nftables
conntrack=conntrack
ip=iproute2
openssl=openssl
busybox=busybox-static
/usr/lib/postgresql/*/bin/postgres=postgresql
gcc=gcc
/usr/include/stdio.h=libc6-dev
curl=curl
jq=jq
modprobe=kmod
nsenter=util-linux
flock=util-linux
LIST
}
mapfile -t packages < <(missing_packages | sort -u)
[ ${#packages[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null ||
  die "programs are missing that only apt-get could install here: install the equivalents of the Debian packages ${packages[*]}"

step "installing the Debian packages ${packages[*]}"
if [ ! -e "$POLICY" ]; then
  trap remove_policy EXIT
  printf '#!/bin/sh\n# Of coder-k8s: no service is started while packages are installed.\nexit 101\n' >"$POLICY"
  chmod +x "$POLICY"
fi
mkdir -p "$LOGS"
export DEBIAN_FRONTEND=noninteractive
watched "$LOGS/apt.log" "apt-get update" apt-get -o Acquire::Retries=5 update || step "  apt-get update failed; trying with the lists that are there"
watched "$LOGS/apt.log" "apt-get install" apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${packages[@]}" ||
  die "apt-get could not install ${packages[*]}: see $LOGS/apt.log"
mapfile -t packages < <(missing_packages | sort -u)
[ ${#packages[@]} = 0 ] || die "the packages ${packages[*]} are installed but their programs are not in PATH ($PATH)"
step "Debian packages installed"
