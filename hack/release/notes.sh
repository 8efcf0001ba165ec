#!/usr/bin/env bash
# notes.sh vX.Y.Z: the notes of the release, in Markdown: what to install, how to check it, and the commits since the release
# before, which is the newest tag below HEAD. The first release lists none: all of them would not fit on its page.
set -euo pipefail
cd "$(dirname "$0")/../.."
version="$1"
[ -n "$version" ]
repository=https://github.com/coder-k8s/coder-k8s
previous=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null || true)
cat <<END
Install or upgrade ([before an upgrade]($repository/blob/$version/docs/how-to/upgrade.md)):

\`\`\`sh
kubectl apply --server-side -f $repository/releases/download/$version/install.yaml
# or
helm upgrade --install coder-k8s oci://ghcr.io/coder-k8s/charts/coder-k8s --version ${version#v} --namespace coder-system
\`\`\`

Check what you fetched: [docs/how-to/release.md]($repository/blob/$version/docs/how-to/release.md#check-a-release).

END
if [ -z "$previous" ]; then
  echo "This is the first release."
  exit
fi
printf '## Changes since %s\n\n' "$previous"
git log --no-merges --reverse --format='- %s (%h)' --abbrev=12 "$previous..HEAD"
