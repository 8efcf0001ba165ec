#!/usr/bin/env bash
# page.sh vX.Y.Z: creates the release page on GitHub with all files of dist/release, with GH_TOKEN. It runs last, so
# that the image and the chart are available when the page is visible.
set -euo pipefail
cd "$(dirname "$0")/../.."
version="$1" out=dist/release
kind=()
[[ "$version" != *-* ]] || kind=(--prerelease)
mapfile -t files < <(find "$out" -type f ! -name notes.md | LC_ALL=C sort)
exec gh release create "$version" --verify-tag --title "$version" --notes-file "$out/notes.md" "${kind[@]}" "${files[@]}"
