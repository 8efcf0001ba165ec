# database.sh backup|restore|delete|schema_version: runs in a Job, with the programs of PostgreSQL and a POSIX shell. The result is
# the container's termination message, as lines of name=value; after a failure reason and message. Exit code 3 means
# that another attempt would fail too. The files are in /backups, on the volume of the backup.
set -eu
umask 027
export LC_ALL=C
# The tests set other places.
work="${WORK:-/work}" backups="${BACKUPS:-/backups}" result="${RESULT:-/dev/termination-log}"
log="$work/log" directory="$backups/${BACKUP_DIRECTORY:-}" partial="$backups/.incomplete-${BACKUP_UID:-}"
: >"$log"

stop() { # exit code, reason, message
  printf 'reason=%s\nmessage=%s\n' "$2" "$3" >"$result"
  echo "error: $3" >&2
  exit "$1"
}
fail() { stop 3 "$@"; }
again() { stop 1 "$@"; }
# said returns the last line of the log that names an error, because hints may follow it, or the last line.
said() { { grep -Ei 'failed:|error:' "$log" || cat "$log"; } | tail -n 1 | tr -d '\r' | cut -c 1-600; }

# run waits for a program in the background, so that the shell can end it when the pod ends.
child=""
trap 'if [ "$child" ]; then kill "$child"; fi 2>/dev/null; exit 143' TERM INT
run() {
  "$@" 2>"$log" &
  child=$!
  if wait "$child"; then child=""; else child="" && return 1; fi
}

# connect writes the URL into a service file of libpq, because every user of the node can read arguments.
connect() {
  [ "${CODER_PG_AUTH:-password}" = password ] ||
    fail DatabaseUnsuitable "CODER_PG_AUTH is $CODER_PG_AUTH, and only a connection URL with a password is supported"
  awk '
    function hex(c) { return index("0123456789abcdef", tolower(c)) - 1 }
    function decode(s,  out, i) {
      while ((i = index(s, "%")) > 0) {
        out = out substr(s, 1, i - 1) sprintf("%c", hex(substr(s, i + 1, 1)) * 16 + hex(substr(s, i + 2, 1)))
        s = substr(s, i + 3)
      }
      return out s
    }
    function put(key, value) { if (value != "") print key "=" value }
    BEGIN {
      rest = ENVIRON["CODER_PG_CONNECTION_URL"]
      if (!match(rest, /^postgres(ql)?:\/\//)) exit 1
      rest = substr(rest, RLENGTH + 1)
      if (i = index(rest, "?")) { query = substr(rest, i + 1); rest = substr(rest, 1, i - 1) }
      if (i = index(rest, "/")) { name = substr(rest, i + 1); rest = substr(rest, 1, i - 1) }
      print "[coder]"
      if (match(rest, /.*@/)) {
        account = substr(rest, 1, RLENGTH - 1); rest = substr(rest, RLENGTH + 1)
        if (i = index(account, ":")) { put("password", decode(substr(account, i + 1))); account = substr(account, 1, i - 1) }
        put("user", decode(account))
      }
      n = split(rest, servers, ",")
      for (i = 1; i <= n; i++) {
        server = servers[i]; port = ""
        if (match(server, /:[0-9]*$/)) { port = substr(server, RSTART + 1); server = substr(server, 1, RSTART - 1) }
        gsub(/[][]/, "", server)
        hosts = hosts (i > 1 ? "," : "") decode(server); ports = ports (i > 1 ? "," : "") port
      }
      put("host", hosts)
      if (ports ~ /[0-9]/) put("port", ports)
      put("dbname", decode(name))
      n = split(query, parameters, "&")
      for (i = 1; i <= n; i++) {
        at = index(parameters[i], "="); key = substr(parameters[i], 1, at - 1); value = decode(substr(parameters[i], at + 1))
        if (key == "search_path") put("options", "-csearch_path=" value)
        # Others are for the driver of Coder, and unknown to libpq.
        else if (key ~ /^(user|password|host|hostaddr|port|dbname|options|connect_timeout|target_session_attrs|channel_binding|gssencmode|krbsrvname|ssl[a-z_]*|keepalives[a-z_]*|tcp_user_timeout)$/) put(key, value)
      }
    }' >"$work/service" || fail DatabaseUnsuitable "the connection URL of the database must begin with postgres:// or postgresql://"
  unset CODER_PG_CONNECTION_URL
  export PGSERVICEFILE="$work/service" PGAPPNAME=coder-k8s PGCONNECT_TIMEOUT="${PGCONNECT_TIMEOUT:-15}"
  server=$(ask 'SHOW server_version_num') || again DatabaseUnreachable "the database cannot be reached: $(said)"
  postgres=$(ask 'SHOW server_version')
  client=$(pg_dump --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
  [ "$client" -ge $((server / 10000)) ] ||
    fail ClientTooOld "the image has the programs of PostgreSQL $client, and the server is PostgreSQL $postgres: set an image of that major version or a newer one"
}
ask() { psql -XAtq -w -v ON_ERROR_STOP=1 -d service=coder -c "$1" 2>"$log"; }
schema() { ask "SELECT version || CASE WHEN dirty THEN ' dirty' ELSE '' END FROM schema_migrations"; }
value() { sed -n "s/^$1=//p" "$directory/manifest"; }
report() {
  {
    grep -E '^(coderVersion|schemaVersion|postgresVersion|encryptionKeys|size)=' "$directory/manifest"
    echo "sha256=$(sed -n 's/  database.dump$//p' "$directory/SHA256SUMS")"
  } >"$result"
}

schema_version() {
  connect
  before=$(schema) || fail DatabaseUnsuitable "the database has no schema of Coder: $(said)"
  printf 'schemaVersion=%s\nserverVersion=%s\n' "$before" "$server" >"$result"
}

backup() {
  if [ -e "$directory" ]; then
    [ "$(value uid 2>/dev/null)" = "$BACKUP_UID" ] ||
      fail VolumeUnsuitable "the volume has other files in the directory $BACKUP_DIRECTORY: choose another name, or remove them"
    report # An earlier pod completed it.
    return
  fi
  connect
  started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  before=$(schema) || fail DatabaseUnsuitable "the database has no schema of Coder: $(said)"
  case "$before" in
    '') fail DatabaseUnsuitable "the database has no schema of Coder: schema_migrations is empty" ;;
    *dirty) fail DatabaseUnsuitable "a migration of Coder has failed half way, so that the schema $before is not that of any version" ;;
  esac
  keys=$(ask 'SELECT count(*) FROM dbcrypt_keys WHERE revoked_at IS NULL') || keys=""
  rm -rf "$partial"
  mkdir -p "$partial" "${directory%/*}" 2>"$log" || fail VolumeUnsuitable "the volume cannot be written: $(said)"
  trap 'rm -rf "$partial"' EXIT
  run pg_dump --format=custom --no-password --file="$partial/database.dump" -d service=coder || again BackupFailed "pg_dump failed: $(said)"
  [ "$(schema)" = "$before" ] || again BackupFailed "Coder migrated the database during the backup"
  run pg_restore --list "$partial/database.dump" >"$work/contents" && grep -q 'TABLE DATA .* users ' "$work/contents" ||
    again BackupFailed "the dump cannot be read back: $(said)"
  # The list is at the beginning of the file. This reads all of it.
  run pg_restore --file=/dev/null "$partial/database.dump" || again BackupFailed "the dump cannot be read back: $(said)"
  cat >"$partial/manifest" <<END
format=1
uid=$BACKUP_UID
namespace=$BACKUP_NAMESPACE
controlPlane=$BACKUP_CONTROL_PLANE
name=$BACKUP_NAME
coderVersion=$BACKUP_CODER_VERSION
schemaVersion=$before
postgresVersion=$postgres
encryptionKeys=$keys
size=$(wc -c <"$partial/database.dump" | tr -d ' ')
startedAt=$started
completedAt=$(date -u +%Y-%m-%dT%H:%M:%SZ)
END
  (cd "$partial" && sha256sum database.dump manifest >SHA256SUMS) || again BackupFailed "the checksum cannot be written"
  sync
  mv "$partial" "$directory"
  report
}

# minor returns the major and the minor number of a version.
minor() { printf %s "$1" | sed -n 's/^v\{0,1\}\([0-9][0-9]*\)\.\([0-9][0-9]*\).*/\1 \2/p'; }

marked() { ask "SELECT obj_description(to_regclass('schema_migrations'), 'pg_class')"; }
# load restores the dump in one transaction. Without the end of the dump there is no COMMIT. Since PostgreSQL 17
# pg_restore sets a parameter that older servers do not have.
load() {
  {
    echo 'BEGIN;'
    pg_restore --exit-on-error --no-owner --no-privileges --use-list="$work/list" --file=- "$directory/database.dump" 2>"$work/read.log" &&
      printf "RESET search_path;\nCOMMENT ON TABLE schema_migrations IS '%s';\nCOMMIT;\n" "$mark"
  } | sed '1,50{/^SET transaction_timeout = 0;$/d;}' | psql -Xq -v ON_ERROR_STOP=1 --no-password -d service=coder --file=- >/dev/null
}

restore() {
  [ -f "$directory/manifest" ] && [ -f "$directory/SHA256SUMS" ] ||
    fail BackupUnusable "the volume has no complete backup in the directory $BACKUP_DIRECTORY"
  [ "$(value format)" = 1 ] || fail BackupUnusable "the backup in $BACKUP_DIRECTORY was made by a newer operator"
  (cd "$directory" && sha256sum -c SHA256SUMS) >"$log" 2>&1 ||
    fail BackupUnusable "the files in $BACKUP_DIRECTORY are incomplete or changed: their SHA-256 checksums differ"
  sum=$(sed -n 's/  database.dump$//p' "$directory/SHA256SUMS")
  [ "$sum" = "${BACKUP_SHA256:-$sum}" ] || fail BackupUnusable "the files in $BACKUP_DIRECTORY are not those of the CoderBackup: the checksums differ"
  from=$(value coderVersion)
  set -- $(minor "$from") $(minor "$RESTORE_IMAGE_VERSION")
  if [ "${RESTORE_ALLOWED:-}" = true ]; then :
  elif [ $# -ne 4 ]; then
    fail VersionUnknown "the version of Coder in the backup is \"$from\", and that of the image is \"$RESTORE_IMAGE_VERSION\", so the image may be older"
  elif [ "$1" -gt "$3" ] || { [ "$1" -eq "$3" ] && [ "$2" -gt "$4" ]; }; then
    fail Downgrade "the backup is of Coder $from, and the image $RESTORE_IMAGE_VERSION is older than its schema"
  fi
  pg_restore --list "$directory/database.dump" >"$work/contents" 2>"$log" || fail BackupUnusable "pg_restore cannot read the dump: $(said)"
  # A user who does not own them may not comment on them.
  grep -vE ' COMMENT - (SCHEMA|EXTENSION) ' "$work/contents" >"$work/list"
  connect
  found=$(ask "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')") ||
    again DatabaseUnreachable "the database cannot be read: $(said)"
  # The mark is committed with the data, so a pod that died after the commit is not taken for other data.
  mark="coder-k8s: $BACKUP_UID restored $sum"
  if [ "$found" != 0 ]; then
    [ "$(marked)" = "$mark" ] || fail DatabaseNotEmpty "the database is not empty: it has $found tables, views and sequences"
  else
    : >"$work/read.log"
    run load || fail RestoreFailed "the restore failed, and changed nothing: $(said)"
    [ "$(marked)" = "$mark" ] || fail RestoreFailed "pg_restore failed, and changed nothing: $(tail -n 1 "$work/read.log" | cut -c 1-600)"
  fi
  report
}

delete() {
  rm -rf "$partial"
  if [ "$(value uid 2>/dev/null)" = "$BACKUP_UID" ]; then
    rm -rf "$directory" 2>"$log" || again VolumeUnsuitable "the files in $BACKUP_DIRECTORY cannot be deleted: $(said)"
    rmdir "${directory%/*}" 2>/dev/null || true
  fi
}

"$1"
