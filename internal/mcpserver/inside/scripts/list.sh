# $1 path, $2 how many levels, $3 most bytes.
[ -e "$file" ] || exit 100
[ -d "$file" ] || exit 107
[ -r "$file" ] && cd "$file" || exit 103
command -v find >/dev/null && command -v stat >/dev/null || exit 127
find . -mindepth 1 -maxdepth "$2" -exec stat -c '%f %s %Y %n' {} + 2>/dev/null | head -c "$3"
