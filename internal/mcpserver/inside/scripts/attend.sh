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
	set +m
	[ -z "$pid" ] || echo "$target" >"$pid"
	watchdog "$1" >/dev/null 2>&1 3>&- &
	watchdog=$!
	wait "$child" 2>/dev/null
	code=$?
	signal TERM "$watchdog"
	signal KILL "$target"
	return "$code"
}
watchdog() {
	nap=
	trap '[ -z "$nap" ] || signal TERM "$nap"; exit' TERM
	sleep "$1" &
	nap=$!
	wait "$nap"
	end
}
end() {
	signal TERM "$target"
	sleep 2
	signal KILL "$target"
}
signal() { kill -s "$1" -- "$2" 2>/dev/null; }
