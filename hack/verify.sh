#!/usr/bin/env bash
# verify.sh: fails, and prints the difference, when something that is generated
# or formatted differs from what is committed.
set -euo pipefail
. "$(dirname "$0")/cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."

# The comparison is made in a copy, so that a check never changes the tree.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
"$copy/hack/generate.sh"
failed=0
for file in $(cd "$copy" && find . -type f | sort); do
  if ! cmp -s "$file" "$copy/$file"; then
    diff -u "$file" "$copy/$file" || true
    echo "verify: $file differs from what make generate makes; run it and commit the result" >&2
    failed=1
  fi
done
unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
  printf 'verify: not formatted; run gofmt -w on:\n%s\n' "$unformatted" >&2
  failed=1
fi
if ! go mod tidy -diff; then
  echo "verify: go.mod or go.sum is not tidy; run go mod tidy" >&2
  failed=1
fi
[ $failed -eq 0 ] && step "verify: nothing differs"
exit $failed
