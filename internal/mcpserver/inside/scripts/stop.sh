# $2 id.
[ -d "$store" ] || exit 108
signal=TERM
for second in 1 2 3 4 5; do
	[ -e "$store/code" ] && exit 0
	[ "$second" != 4 ] || signal=KILL
	if alive "$store/pid"; then
		[ -z "$signal" ] || kill -s "$signal" -- "$target" 2>/dev/null
		signal=
	else
		# Its program is just being started, or its exit code is being stored.
		alive "$store/keeper" || exit 0
	fi
	sleep 1
done
