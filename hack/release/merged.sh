#!/usr/bin/env bash
# merged.sh COMMIT BRANCH: fails unless the commit is part of the branch. Releases are made from main alone.
set -euo pipefail
commit="${1:?merged.sh needs a commit}" branch="${2:?merged.sh needs a branch, for example origin/main}"
git merge-base --is-ancestor "$commit" "$branch" || {
  echo "error: commit $commit is not part of $branch: merge it, and tag the commit that is on main" >&2
  exit 1
}
