#!/usr/bin/env bash
# build.sh: builds the site of docs/ into dist/site. It fails where a link leads to no page, where a page is not in the sidebar
# or stands in it twice, where the search does not find the usual words, and where a picture is not what its source in docs/diagrams makes (hack/docs/pictures.sh).
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
hack/npm/install.sh hack/docs docs
NODE="$CACHE/docs/node_modules/.bin/node"

# VitePress finds its packages above the pages, so it works on a copy beside them, and the tree stays free of them.
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
