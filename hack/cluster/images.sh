#!/bin/bash
# images.sh: the cluster's own images, once, into $IMAGES: pause, busybox, CoreDNS, one for workspaces, one for backups, and Coder
# under its official name.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
mkdir -p "$IMAGES" "$LOGS"
exec 6>>"$CACHE/images.lock"
until_ok 600 "another making of images in $CACHE" flock -n 6 || die "another making of images in $CACHE has not ended for 10 minutes"

# Each image is built again when its inputs change.
image() { # name tag argument...
  local name="$1" tag="$2" key
  shift 2
  key="$tag $(printf '%s\n' "$@" | cksum) $(cat "$BIN"/.*.built | cksum)"
  [ "$(cat "$IMAGES/.$name.built" 2>/dev/null)" = "$key" ] && [ -f "$IMAGES/$name.tar" ] && return
  watched "$LOGS/images.log" "image $tag" "$BIN/image" -out "$IMAGES/$name.tar" -tag "$tag" "$@" || die "the image $tag could not be assembled: see $LOGS/images.log"
  echo "$key" >"$IMAGES/.$name.built"
}

# The shared libraries that a program needs, as arguments.
libraries() { { ldd "$1" 2>/dev/null || true; } | grep -o '/[^ ]*' | sort -u | sed 's#.*#&:&#'; }

busybox=$(command -v busybox)
image pause "$PAUSE_IMAGE" -entrypoint /pause -user 65535:65535 "$BIN/pause:/pause"

applets=()
for a in $("$busybox" --list-full); do
  case "$a" in bin/busybox | linuxrc) ;; *) applets+=(-symlink "/$a=/bin/busybox") ;; esac
done
# shellcheck disable=SC2046
image busybox "$BUSYBOX_IMAGE" -cmd /bin/sh -text '/etc/passwd=root:x:0:0:root:/root:/bin/sh\n' -dir /tmp:1777 -dir /root:755 \
  -dir /var:755 -dir /www:755 "${applets[@]}" "$busybox:/bin/busybox" $(libraries "$busybox")

pg_bin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
# shellcheck disable=SC2046
image postgres-client "$POSTGRES_IMAGE" -label "built=$("$pg_bin/pg_dump" --version | tr ' ' -)" -cmd /bin/sh -text '/etc/passwd=root:x:0:0:root:/root:/bin/sh\n' -dir /tmp:1777 \
  "${applets[@]}" "$busybox:/bin/busybox" "$pg_bin/pg_dump:/usr/local/bin/pg_dump" "$pg_bin/pg_restore:/usr/local/bin/pg_restore" "$pg_bin/psql:/usr/local/bin/psql" \
  $({ libraries "$busybox"; libraries "$pg_bin/psql"; libraries "$pg_bin/pg_dump"; } | sort -u)

image coredns "$COREDNS_IMAGE" -entrypoint /coredns "$BIN/coredns:/coredns"

# Like the official image: entrypoint ["/opt/coder","server"], user 1000. Terraform and the coder provider are inside,
# so nothing is downloaded when a template is planned. The old kubernetes provider uses the pod's ServiceAccount only
# if its configuration disables the kubeconfig. Two settings save processor time: by default
# Coder closes seven of its ten connections when they are idle, and PostgreSQL starts a process for each new one; GOGC is
# that of the node (node.sh).
# shellcheck disable=SC2046
coder_built=$(tr ' ' - <"$CODER.built")
image "coder-$CODER_VERSION" "$CODER_IMAGE" -label "built=$coder_built" -entrypoint /opt/coder,server -user 1000:1000 -env HOME=/home/coder -env TF_CLI_CONFIG_FILE=/etc/terraformrc -env KUBE_LOAD_CONFIG_FILE=false \
  -env CODER_PG_CONN_MAX_IDLE=10 -env GOGC=300 -workdir /home/coder -dir /tmp:1777 -dir /home/coder:777 \
  -text '/etc/passwd=root:x:0:0:root:/:/bin/sh\ncoder:x:1000:1000:coder:/home/coder:/bin/sh\n' \
  -text '/etc/terraformrc=provider_installation {\n  filesystem_mirror {\n    path = "/opt/mirror"\n  }\n}\n' \
  "$CODER:/opt/coder" "$BIN/terraform:/usr/local/bin/terraform" "$busybox:/bin/sh" "$MIRROR:/opt/mirror" \
  $({ libraries "$CODER"; libraries "$BIN/terraform"; libraries "$busybox"; } | sort -u)

# shellcheck disable=SC2046
image broken-coder "$BROKEN_CODER_IMAGE" -label "built=$(cksum <"$HERE/src/broken-coder.sh" | tr ' ' -)" -entrypoint /opt/coder,server -user 1000:1000 \
  "$HERE/src/broken-coder.sh:/opt/coder:755" "$busybox:/bin/sh" $(libraries "$busybox")

# The user of workspaces is 1000, as in Coder's own images.
root="$CACHE/workspace"
packages=$(cat "$HERE/workspace.sh" <(echo "$WORKSPACE_PACKAGES") | cksum | tr " " -)
if [ "$(cat "$root.built" 2>/dev/null)" != "$packages" ]; then
  watched "$LOGS/workspace.log" "the packages of $WORKSPACE_IMAGE" "$HERE/workspace.sh" "$root" ||
    die "the packages of $WORKSPACE_IMAGE could not be unpacked: see $LOGS/workspace.log"
  echo "$packages" >"$root.built"
fi
image "workspace-$CODER_VERSION" "$WORKSPACE_IMAGE" -label "packages=$packages" -label "built=$coder_built" -cmd /bin/bash -user 1000:1000 -env HOME=/home/coder -env LANG=C.UTF-8 -env EDITOR=nano \
  -workdir /home/coder -dir /tmp:1777 -dir /var/tmp:1777 -dir /home/coder:777 \
  -text '/etc/passwd=root:x:0:0:root:/root:/bin/bash\ncoder:x:1000:1000:coder:/home/coder:/bin/bash\n' \
  -text '/etc/group=root:x:0:\ncoder:x:1000:\n' "$root:/" "$CODER:/usr/local/bin/coder"
