# $1 path, $2 size of the content on standard input, $3 the version that the file must
# have, if any, $4 a name that no other file has.
if [ -L "$file" ]; then
	file=$(readlink -f "$file" && echo .) || exit 100
	file=${file%??}
fi
[ ! -d "$file" ] || exit 101
[ ! -e "$file" ] || [ -f "$file" ] || exit 102
[ ! -e "$file" ] || [ -w "$file" ] || exit 103
unchanged() {
	[ -z "$1" ] || [ "$(version 2>/dev/null)" = "$1" ] || exit 105
}
unchanged "$3"
mkdir -p "${file%/*}/" || exit 104
new=${file%/*}/$4
trap 'rm -f "$new"' EXIT
trap 'exit 129' HUP INT TERM
# The new file has the mode and the owner of the old one.
[ ! -e "$file" ] || cp -p "$file" "$new" || exit 104
head -c "$2" >"$new" || exit 104
[ "$(wc -c <"$new")" -eq "$2" ] || exit 106
unchanged "$3"
mv -f "$new" "$file" || exit 104
