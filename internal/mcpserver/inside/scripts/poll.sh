# $2 id, $3 and $4 most bytes of the start and of the end of each stream. The first line
# is: state, exit code; for each stream its size and how much of its start is shown, if
# something is left out.
[ -d "$store" ] || exit 108
state=running
code=0
for second in 1 2 3; do
	[ -e "$store/done" ] && break
	[ -e "$store/code" ] || { [ -s "$store/pid" ] && ! alive "$store/pid"; } || break
	# Its exit code or its last output is being stored.
	sleep 1
done
alive "$store/keeper" || alive "$store/pid" || state=lost
if [ -s "$store/code" ]; then
	state=ended
	code=$(cat "$store/code")
fi
size() {
	dropped=$(cat "$1.dropped" 2>/dev/null) || dropped=0
	kept=$(cat "$1".[0-3] 2>/dev/null | wc -c)
	size=$((kept + dropped))
	start=-1
	[ "$size" -le $(($2 + $3)) ] && return
	start=$(head -c "$2" "$1.0" | wc -c)
}
show() { # prints what size counted
	if [ "$start" -lt 0 ]; then
		cat "$1".[0-3] 2>/dev/null | head -c "$size"
		return
	fi
	head -c "$start" "$1.0"
	cat "$1".[0-3] | head -c "$kept" | tail -c "$2"
}
size "$store/err" "$3" "$4"
errsize=$size errkept=$kept errstart=$start
size "$store/out" "$3" "$4"
echo "$state $code $size $start $errsize $errstart"
show "$store/out" "$4"
size=$errsize kept=$errkept start=$errstart
show "$store/err" "$4" >&2
exit 0
