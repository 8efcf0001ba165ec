# Runs the scripts in $1 with the other arguments. Without setsid, they need job control, which
# bash has even without a terminal.
text=$1
shift
command -v setsid >/dev/null || ! command -v bash >/dev/null || exec bash --posix -c "$text" sh "$@"
eval "$text"
