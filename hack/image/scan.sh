#!/usr/bin/env bash
# scan.sh ARCHIVE: fails if the image of an archive, as hack/image/build.sh makes it, has a known vulnerability. It asks
# the database of https://osv.dev.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
archive="${1:?"scan.sh needs the archive of an image, for example bin/coder-k8s.tar"}"
[ -f "$archive" ] || die "$archive is not there: make image"
export TOOLS_DIR="${TOOLS_DIR:-$CACHE/tools}"
hack/tools.sh osv-scanner
exec "$TOOLS_DIR/osv-scanner" scan image --archive "$archive"
