#!/bin/bash
# workspace.sh DIRECTORY: unpacks the Debian packages of the workspace image into DIRECTORY, with what their installation
# would have written. Nothing of them is run, and no root is needed. apt-get chooses the packages as for an empty machine.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$HERE/lib.sh"
root="$1"
command -v apt-get >/dev/null || die "the image $WORKSPACE_IMAGE is made of Debian packages, and there is no apt-get here"
new="$root.new"
rm -rf "$new" && mkdir -p "$new/debs/partial" "$new/root"
: >"$new/status"
apt() {
  apt-get -q -o Dir::State::status="$new/status" -o Dir::Cache::archives="$new/debs" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 -o Acquire::Retries=5 "$@"
}
# Left out is what only configures packages, and perl, which nothing here runs.
without='^(perl.*|lib.*perl.*|dpkg|debconf|adduser|passwd|usrmerge|init-system-helpers|git-man|gcc-.*-base|libdb5.*|libpam.*|libsem.*|libsepol.*|libaudit.*)$'
# shellcheck disable=SC2086
download() {
  local names
  names=$(apt install -y --no-install-recommends --print-uris $WORKSPACE_PACKAGES | sed -n "s/^'\([^']*\)' \([^_]*\)_.*/\2/p" | grep -vE "$without") &&
    (cd "$new/debs" && apt download $names)
}
# The machine's lists may be missing, or name packages that are gone.
download || { apt-get -q -o Acquire::Retries=5 update && download; } || die "the packages of $WORKSPACE_IMAGE could not be downloaded"

for d in bin sbin lib lib64; do mkdir -p "$new/root/usr/$d" && ln -s "usr/$d" "$new/root/$d"; done
for deb in "$new"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$new/root" --keep-directory-symlink --no-same-owner \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/info/*' --exclude='./usr/share/locale/*' \
    --exclude='./usr/share/lintian/*' --exclude='./usr/share/bash-completion/*' --exclude='./dev/*'
done
cat "$new"/root/usr/share/ca-certificates/mozilla/*.crt >"$new/root/etc/ssl/certs/ca-certificates.crt"
ln -s mawk "$new/root/usr/bin/awk"
# Those that everybody may write to are made with the image.
rmdir "$new"/root/{tmp,var/tmp,home}
cp "$new/root/etc/skel/.bashrc" "$new/root/etc/bash.bashrc"
echo '. /etc/bash.bashrc' >"$new/root/etc/profile"
rm -rf "$root"
mv "$new/root" "$root"
rm -rf "$new"
