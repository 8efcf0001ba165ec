#!/usr/bin/env bash
# screenshots.sh: makes the pictures of terminals in docs/pictures from what real commands write on a real cluster: that of the
# current KUBECONFIG, on which the demo runs (make demo; eval "$(make -s demo-env)"). It needs kubectl and kubectl-coder in PATH,
# makes two workspaces beside the demo's samples, and takes them away again. The first picture of the README is a recording:
# asciinema and expect (Debian packages) make it.
set -euo pipefail
. "$(dirname "$0")/../cluster/settings.sh"
. "$HERE/lib.sh"
cd "$HERE/../.."
command -v kubectl-coder >/dev/null || die "kubectl-coder is not in PATH: make build, then PATH=\"\$PWD/bin:\$PATH\""
for program in asciinema expect; do
  command -v "$program" >/dev/null || die "$program is not in PATH: apt-get install $program"
done
COLUMNS_SHOWN=128
EXTRA=coder.admin.docs
RECORDED=coder.admin.web

work=$(mktemp -d)
finish() {
  kubectl -n coder delete --ignore-not-found --wait=false coderworkspaces "$EXTRA" "$RECORDED" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT
(cd hack/docs/terminal && go build -o "$work/terminal" .)

shot() { # NAME COMMAND [FLAG...]: runs COMMAND on a terminal of its own; the flags go to the program that draws it
  local name="$1" command="$2"
  shift 2
  # A command may say by its exit code that something is wrong: that is shown, too.
  TERM=xterm-256color script -qec "stty cols $COLUMNS_SHOWN rows 50; $command" /dev/null </dev/null >"$work/output" || true
  "$work/terminal" -columns "$COLUMNS_SHOWN" -command "$command" "$@" <"$work/output" >"$work/$name.svg" || die "$command: $(cat "$work/output")"
  mv "$work/$name.svg" "docs/pictures/$name.svg"
  step "docs/pictures/$name.svg: $command"
}

# What a new user types: from a manifest to a shell in a workspace that did not exist before.
sed "s/^  name: coder\.admin\..*/  name: $RECORDED/" hack/demo/workspace.yaml >"$work/workspace.yaml"
kubectl config view --raw --minify >"$work/kubeconfig"
kubectl config set-context --current --namespace=coder --kubeconfig="$work/kubeconfig" >/dev/null
(cd "$work" && KUBECONFIG="$work/kubeconfig" COLUMNS_SHOWN=100 WORKSPACE=admin.web asciinema rec -q -i 2 --cols 100 --rows 30 -c "expect -f $OLDPWD/hack/docs/recording.exp" "$work/shell.cast") ||
  die "the recording failed"
"$work/terminal" -cast <"$work/shell.cast" >"$work/shell.svg" || die "the recording could not be drawn"
mv "$work/shell.svg" docs/pictures/shell.svg
step "docs/pictures/shell.svg"

# The other pictures are without it.
kubectl -n coder delete coderworkspace "$RECORDED" >/dev/null
sed "s/^  name: coder\.admin\..*/  name: $EXTRA/" config/samples/coderworkspace.yaml | kubectl apply -f - >/dev/null
kubectl -n coder wait --for=condition=Ready "coderworkspace/$EXTRA" --timeout=180s >/dev/null || die "workspace $EXTRA did not become Ready"

shot kinds "kubectl -n coder get codercontrolplanes,codertemplates,coderworkspaces"
shot status "kubectl coder status -n coder"
kubectl coder stop --all -n coder --yes --wait >"$work/output" 2>&1
# The line of progress is written over, so the picture is of the last time that it was there.
shot start "kubectl coder start --all -n coder --wait" -while "2/3"
