#!/bin/bash
# mountpoints.sh claim|release: the two directories of this machine over which every node mounts its own. Directories
# that we created are removed when no instance is left: while another one runs, removing a directory would remove its
# mount.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
MADE="$STATES/.made"
mkdir -p "$STATES"
exec 7>>"$CACHE/mountpoints.lock"
flock 7
if [ "$1" = claim ]; then
  mkdir -p "$STATE"
  for d in /var/lib/kubelet /var/lib/cni; do
    [ -d "$d" ] || { echo "$d" >>"$MADE"; mkdir -p "$d"; }
  done
elif [ -f "$MADE" ] && [ -z "$(ls "$STATES")" ]; then
  while read -r d; do rmdir "$d" 2>/dev/null || true; done <"$MADE"
  rm -f "$MADE"
fi
