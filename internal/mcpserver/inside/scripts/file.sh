# Sets file to the path in $1. It always has a slash, so that it is never an option.
case $1 in
'~') file=$HOME ;;
'~/'*) file=$HOME/${1#??} ;;
/*) file=$1 ;;
*) file=./$1 ;;
esac
version() { # prints what changes with the content of the file
	for program in cksum sha256sum md5sum; do
		if command -v "$program" >/dev/null; then
			"$program" <"$file"
			return
		fi
	done
	return 127
}
