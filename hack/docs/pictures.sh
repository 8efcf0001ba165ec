#!/usr/bin/env bash
# pictures.sh: makes docs/pictures from their sources in docs/diagrams. The screenshots are made by screenshots.sh.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
hack/npm/install.sh hack/docs docs
# The program finds its packages above itself, so a copy of it works beside them.
work=$(mktemp -d "$CACHE/docs/pictures.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp hack/docs/*.js "$work/"
"$CACHE/docs/node_modules/.bin/node" "$work/pictures.js" docs
step "docs/pictures: $(find docs/pictures -name '*.svg' | wc -l)"
