# Sets store to where the background command $2 keeps what is known of it.
root=${XDG_CACHE_HOME:-$HOME/.cache}/coder-k8s/commands
store=$root/$2
born() { # prints when process $1 started: another one with its number started later
	read -r stat <"/proc/${1#-}/stat" || return
	set -- ${stat##*) }
	[ "$1" = Z ] || echo "${20}"
} 2>/dev/null
alive() { # tells whether the process runs that file $1 names
	read -r target since <"$1" && [ -n "$since" ] && [ "$(born "$target")" = "$since" ]
} 2>/dev/null
