#!/bin/bash
# build.sh [TARGET...]: builds the given programs (default: all) into $CACHE/bin if they are missing, from the Go
# module proxy only. It takes about 20 min on two cores with empty caches, and no time if nothing changed. Needs no
# root. The targets: apiserver kube etcd coredns kube-router coder terraform provider pause image. The integration tests need "apiserver etcd".
#
# The go.mod files in modules/ pin the version of every module that is compiled; Coder is built with its own go.mod. A
# module that most others import has the version of the main go.mod (modules_test.go checks that), so each package is
# compiled once for all programs.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
BUILD_LOGS="$CACHE/logs/build"

# The inputs of a target: if this line changes, the target is built again.
stamp_of() {
  case "$1" in
    apiserver) echo "kube-apiserver $KUBE_VERSION $(cksum <"$HERE/modules/kube/go.sum")" ;;
    kube) echo "kubernetes $KUBE_VERSION $(cksum <"$HERE/modules/kube/go.sum")" ;;
    etcd) echo "etcd $(cat "$HERE"/modules/kube/{etcd/main.go,go.sum} | cksum)" ;;
    coredns) echo "coredns $(cat "$HERE"/modules/kube/{coredns/main.go,go.sum} | cksum)" ;;
    kube-router) echo "kube-router $(cat "$HERE"/modules/kube-router/{main.go,go.sum} | cksum)" ;;
    coder) echo "coder $CODER_VERSION $(declare -f coder_source | cksum)" ;;
    terraform) echo "terraform $TERRAFORM_VERSION $({ declare -f terraform_source; cat "$HERE/modules/terraform/go.sum"; } | cksum)" ;;
    provider) echo "providers $PROVIDER_VERSION $KUBERNETES_PROVIDER_VERSION $({ declare -f provider_source; cat "$HERE"/modules/provider/{go.sum,provider.sed}; } | cksum)" ;;
    pause) echo "pause $(cksum <"$HERE/src/pause.c")" ;;
    image) echo "image $(cat "$HERE"/../image/*.go "$HERE"/../image/go.mod | cksum)" ;;
    *) die "build.sh knows no target \"$1\": apiserver kube etcd coredns kube-router coder terraform provider pause image" ;;
  esac
}
name_of() { stamp_of "$1" | sed 's/ [0-9]* [0-9]*$//'; }
# The file with the stamp of what was built. Several releases of Coder stand side by side.
stamp_file() { if [ "$1" = coder ]; then echo "$CODER.built"; else echo "$BIN/.$1.built"; fi; }

# The module that a target is built in. The missing targets of one module are built by one `go build`, which links one
# program while it compiles another.
module_of() {
  case "$1" in
    apiserver | kube | etcd | coredns) echo "$HERE/modules/kube" ;;
    image) echo "$HERE/../image" ;;
    *) echo "$HERE/modules/$1" ;;
  esac
}

packages_of() {
  case "$1" in
    apiserver) printf '%s\n' k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kubectl} ;;
    kube) printf '%s\n' k8s.io/kubernetes/cmd/{kube-scheduler,kubelet,kube-proxy} ;;
    etcd | coredns) echo "./$1" ;;
    coder) echo github.com/coder/coder/v2/cmd/coder ;;
    terraform) echo github.com/hashicorp/terraform ;;
    provider) printf '%s\n' github.com/hashicorp/terraform-provider-kubernetes github.com/coder/terraform-provider-coder/v2 ;;
    kube-router | image) echo . ;;
  esac
}

# Build tags that omit optional parts of modules that nothing here uses: Tailscale's state in AWS, and gRPC's xDS in
# the client of Google's storage.
TAGS=ts_omit_aws,disable_grpc_modules

# The programs get their names only when they are complete: an interrupted linker leaves no broken program.
NEW="$BIN/.new"
go_build() { # target...
  local v="v$KUBE_VERSION" ld="-s -w" p minor packages
  minor="${KUBE_VERSION#*.}"
  for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ld="$ld -X $p.gitVersion=$v -X $p.gitMajor=${KUBE_VERSION%%.*} -X $p.gitMinor=${minor%%.*} -X $p.gitTreeState=clean"
    ld="$ld -X $p.gitCommit=module-proxy -X $p.buildDate=2026-01-01T00:00:00Z"
  done
  ld="$ld -X github.com/coder/coder/v2/buildinfo.tag=$CODER_VERSION"
  mapfile -t packages < <(for p in "$@"; do packages_of "$p"; done)
  go_plan "$NEW" -tags "$TAGS" -- "${packages[@]}"
  go build -v -tags "$TAGS" -ldflags "$ld" -o "$NEW/" "${packages[@]}"
}

# Terraform stores the state of the workspaces in a file that Coder provides. Its other backends need the client
# libraries of eight clouds, more than half of the code, so they are removed from its list.
terraform_source() { # directory
  local src
  mkdir -p "$1"
  cp "$HERE"/modules/terraform/go.* "$1"
  cd "$1"
  src=$(go mod download -json github.com/hashicorp/terraform | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  cp -r "$src" src
  chmod -R u+w src
  sed -i -E '/backend(Azure|Consul|Cos|GCS|Kubernetes|OSS|Pg|S3)\>/d' src/internal/backend/init/init.go
  go mod edit -replace=github.com/hashicorp/terraform=./src
}
# The provider hashicorp/kubernetes is served by the proxy in one old version. Its resources of a workspace are compiled, with
# the Kubernetes and plugin libraries that the other programs here have (modules/provider/provider.sed), because its own
# would be compiled for it alone.
provider_source() { # directory
  local src
  mkdir -p "$1/src/kubernetes"
  cp "$HERE"/modules/provider/go.* "$1"
  src=$(cd "$1" && go mod download -json "github.com/hashicorp/terraform-provider-kubernetes@v$KUBERNETES_PROVIDER_VERSION" | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  cp "$src/main.go" "$1/src"
  for f in $(sed -n 's/^# files: //p' "$HERE/modules/provider/provider.sed"); do cp "$src/kubernetes/$f.go" "$1/src/kubernetes"; done
  chmod -R u+w "$1/src"
  sed -i -E -f "$HERE/modules/provider/provider.sed" "$1"/src/*.go "$1"/src/kubernetes/*.go
  printf 'module github.com/hashicorp/terraform-provider-kubernetes\n\ngo 1.26.0\n' >"$1/src/go.mod"
  cd "$1"
  go mod edit -replace=github.com/hashicorp/terraform-provider-kubernetes=./src
}
# Coder is built in its own directory with the modules that its authors pin, except that those which most others import have
# the versions of the operator. The modules of two optional parts are not served by the proxy for every release: the client command
# "coder exp boundary", which becomes an empty command, and the AI gateway, which the build without licenses does not contain.
SHARED='golang\.org/x|google\.golang\.org|k8s\.io|sigs\.k8s\.io|go\.opentelemetry\.io/otel|github\.com/go-logr|github\.com/prometheus/(client_golang|client_model|common|procfs)'
coder_source() { # directory
  local src edits
  mkdir -p "$1/boundary/cli" "$1/aibridge"
  printf 'package cli\n\nimport "github.com/coder/serpent"\n\nfunc BaseCommand() *serpent.Command { return &serpent.Command{} }\n' >"$1/boundary/cli/cli.go"
  printf 'module github.com/coder/boundary\n' >"$1/boundary/go.mod"
  printf 'module github.com/coder/aibridge\n' >"$1/aibridge/go.mod"
  src=$(cd "$HERE" && go mod download -json "github.com/coder/coder/v2@v$CODER_VERSION" | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  cp "$src/go.mod" "$1"
  cat "$src/go.sum" "$HERE/../../go.sum" >"$1/go.sum"
  chmod u+w "$1"/go.*
  mapfile -t edits < <(sed -nE "s#^\t(($SHARED)(/[^ ]*)?) (v[^ ]+).*#\1 \5#p" "$HERE/../../go.mod" |
    while read -r module version; do if grep -qF "	$module v" "$1/go.mod"; then echo "-require=$module@$version"; fi; done)
  go mod edit -replace="github.com/coder/boundary=$1/boundary" -replace="github.com/coder/aibridge=$1/aibridge" "${edits[@]}" "$1/go.mod"
  cd "$src"
  export GOFLAGS="$GOFLAGS -mod=mod -modfile=$1/go.mod"
}
go_into() { # target directory
  case "$1" in
    terraform) terraform_source "$2" ;;
    provider) provider_source "$2" ;;
    coder) coder_source "$2" ;;
    *) cd "$(module_of "$1")" ;;
  esac
}

# The script's own children. `build.sh --one TARGET...` builds: a process of its own, so that its output is a log and a
# heartbeat. `build.sh --fetch TARGET...` downloads what these are built from; go mod download would change go.sum.
case "${1:-}" in
  --one)
    shift
    if [ "$1" = pause ]; then gcc -Os -static -s -o "$NEW/pause" "$HERE/src/pause.c"; exit; fi
    go_into "$1" "$NEW/module/$1"
    go_build "$@"
    exit ;;
  --fetch)
    shift
    for t in "$@"; do
      mapfile -t packages < <(packages_of "$t")
      [ ${#packages[@]} = 0 ] || (go_into "$t" "$NEW/fetch/$t" && go list -deps -tags "$TAGS" "${packages[@]}" >/dev/null)
    done
    exit ;;
esac

[ $# -gt 0 ] || set -- apiserver kube etcd coredns kube-router coder terraform provider pause image
missing() { [ "$(cat "$(stamp_file "$1")" 2>/dev/null)" != "$(stamp_of "$1")" ]; }
todo=()
for t in "$@"; do if missing "$t"; then todo+=("$t"); fi; done
[ ${#todo[@]} -gt 0 ] || exit 0

command -v go >/dev/null || die "Go is not installed or not in PATH: the programs are built with it (go.dev/dl, 1.26 or newer)"
mkdir -p "$BIN" "$MIRROR" "$BUILD_LOGS"
# One build at a time in this cache: two builds would compile the same packages twice.
exec 8>>"$CACHE/build.lock"
until_ok 3600 "another build in $CACHE" flock -n 8 || die "another build in $CACHE has not ended for an hour: see $BUILD_LOGS"
rm -rf "$NEW" && mkdir -p "$NEW"

# The sources of the later targets are downloaded while the first is compiled. Their builds report failed downloads.
"$0" --fetch "${todo[@]:1}" >"$BUILD_LOGS/download.log" 2>&1 8>&- 9>&- &
fetch=$!

# Installs a provider into the directory in which Terraform looks for it.
to_mirror() { # namespace/name version
  local directory="$MIRROR/registry.terraform.io/$1/$2/linux_$(go env GOARCH)" file="terraform-provider-${1#*/}"
  [ -f "$NEW/$file" ] || return 0
  mkdir -p "$directory"
  mv "$NEW/$file" "$directory/${file}_v$2"
}
while [ ${#todo[@]} -gt 0 ]; do
  group=() later=() what=""
  for t in "${todo[@]}"; do
    if [ "$(module_of "$t")" != "$(module_of "${todo[0]}")" ]; then
      later+=("$t")
    elif missing "$t"; then  # Somebody else may have built it while we waited for the lock.
      group+=("$t")
      what="$what${what:+, }$(name_of "$t")"
    fi
  done
  todo=("${later[@]}")
  [ ${#group[@]} -gt 0 ] || continue
  log="$BUILD_LOGS/${group[0]}.log"
  : >"$log"
  step "building $what (log: $log)"
  PROGRESS=go_progress watched "$log" "$what" "$HERE/hugepages.sh" "$0" --one "${group[@]}" 8>&- || die "building $what failed: see $log"
  to_mirror coder/coder "$PROVIDER_VERSION"
  to_mirror hashicorp/kubernetes "$KUBERNETES_PROVIDER_VERSION"
  [ ! -f "$NEW/coder" ] || mv "$NEW/coder" "$CODER"
  find "$NEW" -maxdepth 1 -type f -exec mv -t "$BIN" {} +
  for t in "${group[@]}"; do stamp_of "$t" >"$(stamp_file "$t")"; done
  step "built $what"
done
wait "$fetch" || true
rm -rf "$NEW"
