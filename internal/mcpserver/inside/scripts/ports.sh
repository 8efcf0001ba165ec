cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
[ -r /proc/net/tcp ] || exit 104
