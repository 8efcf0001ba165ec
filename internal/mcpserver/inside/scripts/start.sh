# $1 directory, $2 id, $3 seconds, $4 command, $5 days after which a command is forgotten.
usual=$(umask)
umask 077
mkdir -p "$root" || exit 104
find "$root" -mindepth 1 -maxdepth 1 -mtime "+$5" -exec rm -rf {} + 2>/dev/null
mkdir "$store" || exit 104
store=$(cd "$store" && pwd)
cd "$directory" || exit 103
pid=$store/pid

# keep stores the first part and the newest parts of what it reads. dd writes what it
# reads at once, so that a program's first line can be seen before its second.
keep() {
	dropped=0
	part "$1.0"
	while part "$1.3" && [ -s "$1.3" ]; do
		if [ -e "$1.1" ]; then
			dropped=$((dropped + $(wc -c <"$1.1")))
			echo "$dropped" >"$1.dropped"
		fi
		[ ! -e "$1.2" ] || mv -f "$1.2" "$1.1"
		mv -f "$1.3" "$1.2"
	done
}
part() { dd bs=4096 count=512 2>/dev/null >"$1"; }

trap '' HUP
{
	{ { { umask "$usual"; attend "$3" "$4" 4</dev/null; echo "$code" >"$store/code"; } 2>&1 >&3 3>&- | keep "$store/err"; } 3>&1 | keep "$store/out"; }
	: >"$store/done"
} </dev/null >/dev/null 2>&1 &
echo "$! $(born "$!")" >"$store/keeper"
echo begun
