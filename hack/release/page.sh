#!/usr/bin/env bash
# page.sh vX.Y.Z: writes the page of the release on GitHub with all files of dist/release, as whom GH_TOKEN belongs to. It comes
# last, so that whoever sees the page finds image and chart.
set -euo pipefail
cd "$(dirname "$0")/../.."
version="$1" out=dist/release
kind=()
[[ "$version" != *-* ]] || kind=(--prerelease)
mapfile -t files < <(find "$out" -type f ! -name notes.md | LC_ALL=C sort)
exec gh release create "$version" --verify-tag --title "$version" --notes-file "$out/notes.md" "${kind[@]}" "${files[@]}"
