# $1 directory, $2 seconds, $3 command. The first line of the output says that the
# command began.
cd "$directory" || exit 103
pid=
trap 'unwatch; end; exit 129' HUP INT TERM
echo begun
exec 4<&0 </dev/null
attend "$2" "$3"
exit "$code"
