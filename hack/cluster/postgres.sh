#!/bin/bash
# postgres.sh: Debian's PostgreSQL in the foreground, in separate pid, mount and ipc namespaces, so that it and its
# shared memory end with one process; started by up.sh, and by database.sh again with its data. It listens on
# 127.0.0.1 and on this machine's end of the veth and trusts all clients: this machine and the pods.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
exec >>"$LOGS/postgres.log" 2>&1

PG_BIN=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
# PostgreSQL refuses to run as root, and its user may not enter root's home, where the data are: show them at /mnt.
mkdir -p "$STATE/postgres"
chown postgres "$STATE/postgres"
mount --make-rprivate /
mount --bind "$STATE/postgres" /mnt
mount -t tmpfs tmpfs /dev/shm
cd /mnt
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
if [ ! -e /mnt/data/PG_VERSION ]; then
  as_postgres "$PG_BIN/initdb" -D /mnt/data -A trust -U postgres --no-sync
  for f in $FAMILIES; do printf 'host all all %s trust\n' "$(link_cidr "$f")" "$(pod_cidr "$f")"; done >>/mnt/data/pg_hba.conf
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups "$PG_BIN/postgres" -D /mnt/data -p "$PG_PORT" -k /mnt \
  -c "listen_addresses=127.0.0.1,$HOST_IPS" -c max_connections=300 -c fsync=off
