#!/usr/bin/env bash
# install.sh DIRECTORY NAME: installs what DIRECTORY/package-lock.json pins from npm, with the Node.js that runs it,
# into $CACHE/NAME. npm checks each package against its hash in the lock file and runs none of their scripts. It does
# nothing if they are already installed. To change a version: change package.json, run npm install --package-lock-only
# --ignore-scripts beside it.
set -euo pipefail
. "$(dirname "$0")/../../cluster/settings.sh"
. "$HERE/lib.sh"
pinned=$1 name=$2
target="$CACHE/$name"
stamp="$target/.installed-$(sha256sum "$pinned/package-lock.json" | cut -c1-16)"

if [ -e "$stamp" ]; then exit 0; fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then die "the pinned Node.js is for Linux on x86_64, not for $(uname -sm)"; fi
log="$CACHE/logs/build/$name.log"

again() { # NAME COMMAND...: watched, and up to four times, because a mirror or the network may be away for a moment
  local attempt
  for attempt in 1 2 3 4; do
    if watched "$log" "$@"; then return; fi
    [ "$attempt" = 4 ] || { step "  $1 failed; trying again in $((attempt * 10)) s"; sleep $((attempt * 10)); }
  done
  return 1
}

if ! command -v npm >/dev/null; then
  command -v apt-get >/dev/null || die "npm is needed to install what $pinned pins; any version from 9 on will do"
  step "installing the Debian package npm"
  export DEBIAN_FRONTEND=noninteractive
  again "apt-get update" apt-get update || step "  apt-get update failed; trying with the lists that are there"
  again "apt-get install" apt-get install -y --no-install-recommends npm || die "apt-get could not install npm: see $log"
fi
step "installing what $name needs from npm"
mkdir -p "$target"
rm -f "$target"/.installed-*
cp "$pinned/package.json" "$pinned/package-lock.json" "$target/"
# npm itself may run on an older Node.js than the packages ask for; they run on the one that is installed here.
again npm npm ci --prefix "$target" --ignore-scripts --no-audit --no-fund || die "npm could not install it: see $log"
touch "$stamp"
