# Sets directory, shell and setsid.
[ -e "$file" ] || exit 100
[ -d "$file" ] || exit 107
directory=$file
shell=$(command -v bash) || shell=sh
# In a session of its own, so that all that the command starts can be stopped. Without setsid, in a
# process group of its own, if the shell has job control without a terminal.
setsid=$(command -v setsid) || setsid=

# attend runs the command $2 for at most $1 seconds, with file descriptor 4 as its
# standard input. What the command leaves running is killed.
attend() {
	[ -n "$setsid" ] || set -m 2>/dev/null
	$setsid "$shell" -c "$2" <&4 4<&- &
	child=$!
	exec 4<&-
	target=$child
	case ${setsid:+m}$- in *m*) target=-$child ;; esac
	[ -z "$pid" ] || echo "$target $(born "$child")" >"$pid"
	# A program, because a shell that forks itself keeps copies of its standard output, and can
	# miss signals.
	$setsid sh -c "$watch" sh "$1" "$target" </dev/null >/dev/null 2>&1 3>&- &
	watchdog=$!
	set +m
	wait "$child" 2>/dev/null
	code=$?
	unwatch
	kill -s KILL -- "$target" 2>/dev/null
	return "$code"
}
watch='sleep "$1"
kill -s TERM -- "$2"
sleep 2
kill -s KILL -- "$2"'
# The watchdog may not have its process group yet, and may still have this shell's traps. It dies
# before its group, so that it starts nothing between.
unwatch() { kill -s KILL -- "$watchdog" "-$watchdog"; wait "$watchdog"; } 2>/dev/null
end() { sh -c "$watch" sh 0 "$target" 2>/dev/null; }
