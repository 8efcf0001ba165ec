# $2 id.
[ -d "$store" ] || exit 108
target=$(cat "$store/pid" 2>/dev/null)
[ -z "$target" ] || [ -e "$store/code" ] && exit 0
grep -q "CODER_K8S_COMMAND=$2" "/proc/${target#-}/environ" || exit 0
kill -s TERM -- "$target" 2>/dev/null
for second in 1 2 3 4 5; do
	[ -e "$store/code" ] && exit 0
	[ "$second" -lt 4 ] || kill -s KILL -- "$target" 2>/dev/null
	sleep 1
done
