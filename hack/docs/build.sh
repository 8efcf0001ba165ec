#!/usr/bin/env bash
# build.sh: builds the site of docs/ into dist/site. It fails if a link is dead, if a page is missing in the sidebar
# or is in it twice, if the search does not find the usual words, and if a picture differs from its source in
# docs/diagrams (hack/docs/pictures.sh).
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
hack/docs/npm/install.sh hack/docs docs
NODE="$CACHE/docs/node_modules/.bin/node"

# VitePress looks for its packages in parent directories of the pages, so it works on a copy next to the packages, and
# the tree stays free of them.
work=$(mktemp -d "$CACHE/docs/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp -r docs hack/docs/*.js "$work/"

log="$CACHE/logs/docs.log"
: >"$log"
watched "$log" "tests" "$NODE" --test "$work/site.test.js" || die "a test of the site failed: see $log"
watched "$log" "pictures" "$NODE" "$work/pictures.js" --check "$work/docs" || die "a picture differs from what its source makes; run hack/docs/pictures.sh and commit the result"
watched "$log" "site" "$NODE" "$CACHE/docs/node_modules/vitepress/bin/vitepress.js" build "$work/docs" --outDir "$work/site" ||
  die "the site could not be built: see $log"
watched "$log" "search" "$NODE" --test "$work/search.test.js" || die "the search does not find a page: see $log"
rm -rf dist/site
mkdir -p dist
mv "$work/site" dist/site
step "dist/site: $(find dist/site -name '*.html' | wc -l) pages, $(du -sm dist/site | cut -f1) MB"
