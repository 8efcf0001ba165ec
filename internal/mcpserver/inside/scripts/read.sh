# $1 path, $2 lines or bytes, $3 the first, counted from 1, $4 how many, $5 most bytes,
# $6 up to which size the file has a version.
[ -e "$file" ] || exit 100
[ ! -d "$file" ] || exit 101
[ -f "$file" ] || exit 102
[ -r "$file" ] || exit 103
size=$(wc -c <"$file") || exit 104
version=
[ "$size" -gt "$6" ] || version=$(version) || exit 127
echo "$size $version"
case $2 in
lines) tail -n "+$3" <"$file" | head -n "$4" | head -c "$5" ;;
bytes) tail -c "+$3" <"$file" | head -c "$5" ;;
esac
