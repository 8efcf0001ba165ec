#!/usr/bin/env bash
# pictures.sh: generates docs/pictures from their sources in docs/diagrams. screenshots.sh generates the
# screenshots.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
hack/docs/npm/install.sh hack/docs docs
# The program looks for its packages in its parent directories, so a copy of it runs next to them.
work=$(mktemp -d "$CACHE/docs/pictures.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp hack/docs/*.js "$work/"
"$CACHE/docs/node_modules/.bin/node" "$work/pictures.js" docs
step "docs/pictures: $(find docs/pictures -name '*.svg' | wc -l)"
