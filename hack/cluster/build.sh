#!/bin/bash
# build.sh [TARGET...]: builds what is missing of the given programs (all, without arguments) into $CACHE/bin, from the Go
# module proxy alone. With empty caches about 16 min on two cores, warm nothing. Needs no root.
# The targets: kube etcd coredns coder terraform pause image. The integration tests need "kube etcd".
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
BUILD_LOGS="$CACHE/logs/build"

# What has to be there for a target, and what it was built from: a changed line builds it again.
stamp_of() {
  case "$1" in
    kube) echo "kubernetes $KUBE_VERSION $(cksum <"$HERE/modules/kube/go.sum")" ;;
    etcd) echo "etcd $(cksum <"$HERE/modules/etcd/go.sum")" ;;
    coredns) echo "coredns $(cat "$HERE"/modules/coredns/* | cksum)" ;;
    coder) echo "coder $CODER_VERSION" ;;
    terraform) echo "terraform $TERRAFORM_VERSION, coder provider $PROVIDER_VERSION" ;;
    pause) echo "pause $(cksum <"$HERE/src/pause.c")" ;;
    image) echo "image $(cat "$HERE"/../image/*.go "$HERE"/../image/go.mod | cksum)" ;;
    *) die "build.sh knows no target \"$1\": kube etcd coredns coder terraform pause image" ;;
  esac
}

# How far a `go build -v` is, from its log: it names each module that it downloads and each package that it compiles.
go_progress() {
  local got compiled total
  got=$(grep -c '^go: downloading' "$1" || true)
  compiled=$(grep -c '^[a-z][^ ]*$' "$1" || true)
  total=$(sed -n 's/^packages in all: //p' "$1" | tail -n 1)
  if [ "$compiled" = 0 ]; then
    printf '%s modules downloaded' "$got"
  else
    printf '%s packages compiled%s, last: %s' "$compiled" "${total:+ of at most $total}" "$(grep '^[a-z][^ ]*$' "$1" | tail -n 1 | cut -c1-90)"
  fi
}

# The programs appear under their names only when they are whole: an interrupted linker leaves nothing behind.
NEW="$BIN/.new"
go_build() { # flag... -- package...
  local flags=()
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  echo "packages in all: $(go list -deps "$@" | wc -l)"
  go build -v "${flags[@]}" "$@"
}

# A program whose module has replace directives cannot be `go install`ed: build it in a module that has the same ones.
# `go mod tidy` would fail here on test-only modules that the proxy lacks, so it is not run.
build_as_main() { # module version package output [ldflags]
  local src t
  src=$(go mod download -json "$1@$2" | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  t="$NEW/module"
  rm -rf "$t" && mkdir -p "$t"
  sed 's#^module .*#module coder-k8s.local/main#' "$src/go.mod" >"$t/go.mod"
  cp "$src/go.sum" "$t/go.sum"
  chmod u+w "$t"/go.*
  cd "$t"
  go mod edit -require="$1@$2"
  go mod download "$1@$2"
  go_build -ldflags "-s -w ${5:-}" -o "$4" -- "$3"
}

build_kube() {
  local v="v$KUBE_VERSION" ld="-s -w" p minor
  minor="${KUBE_VERSION#*.}"
  for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ld="$ld -X $p.gitVersion=$v -X $p.gitMajor=${KUBE_VERSION%%.*} -X $p.gitMinor=${minor%%.*} -X $p.gitTreeState=clean"
    ld="$ld -X $p.gitCommit=module-proxy -X $p.buildDate=2026-01-01T00:00:00Z"
  done
  cd "$HERE/modules/kube"
  go_build -ldflags "$ld" -o "$NEW/" -- k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,kubectl}
}
build_etcd() { cd "$HERE/modules/etcd" && go_build -ldflags "-s -w" -o "$NEW/etcd" -- go.etcd.io/etcd/server/v3; }
build_coredns() { cd "$HERE/modules/coredns" && go_build -ldflags "-s -w" -o "$NEW/coredns" -- .; }
build_coder() {
  build_as_main github.com/coder/coder/v2 "v$CODER_VERSION" github.com/coder/coder/v2/cmd/coder "$NEW/coder" \
    "-X github.com/coder/coder/v2/buildinfo.tag=$CODER_VERSION"
}
build_terraform() {
  local d
  d="$MIRROR/registry.terraform.io/coder/coder/$PROVIDER_VERSION/linux_$(go env GOARCH)"
  mkdir -p "$d"
  build_as_main github.com/coder/terraform-provider-coder/v2 "v$PROVIDER_VERSION" github.com/coder/terraform-provider-coder/v2 \
    "$d/terraform-provider-coder_v$PROVIDER_VERSION"
  build_as_main github.com/hashicorp/terraform "v$TERRAFORM_VERSION" github.com/hashicorp/terraform "$NEW/terraform"
}
build_pause() { gcc -Os -static -s -o "$NEW/pause" "$HERE/src/pause.c"; }
build_image() { cd "$HERE/../image" && go_build -ldflags "-s -w" -o "$NEW/image" -- .; }

# `build.sh --one TARGET` is this script's own child: a process of its own, so that its output is a log and a heartbeat.
if [ "${1:-}" = --one ]; then
  "build_$2"
  exit
fi

[ $# -gt 0 ] || set -- kube etcd coredns coder terraform pause image
missing() { [ "$(cat "$BIN/.$1.built" 2>/dev/null)" != "$(stamp_of "$1")" ]; }
todo=()
for t in "$@"; do if missing "$t"; then todo+=("$t"); fi; done
[ ${#todo[@]} -gt 0 ] || exit 0

command -v go >/dev/null || die "Go is not installed or not in PATH: the programs are built with it (go.dev/dl, 1.26 or newer)"
mkdir -p "$BIN" "$MIRROR" "$BUILD_LOGS"
# One build at a time in this cache: two would only compile the same packages twice.
exec 8>>"$CACHE/build.lock"
until_ok 3600 "another build in $CACHE" flock -n 8 || die "another build in $CACHE has not ended for an hour: see $BUILD_LOGS"
rm -rf "$NEW" && mkdir -p "$NEW"
for t in "${todo[@]}"; do
  missing "$t" || continue  # Somebody else built it while we waited for the lock.
  what=$(stamp_of "$t")
  what=${what%% [0-9]*[0-9] [0-9]*}
  log="$BUILD_LOGS/$t.log"
  : >"$log"
  step "building $what (log: $log)"
  PROGRESS=go_progress watched "$log" "$what" "$0" --one "$t" 8>&- || die "building $what failed: see $log"
  rm -rf "$NEW/module"
  find "$NEW" -maxdepth 1 -type f -exec mv -t "$BIN" {} +
  stamp_of "$t" >"$BIN/.$t.built"
  step "built $what"
done
rm -rf "$NEW"
