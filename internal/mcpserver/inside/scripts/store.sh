# Sets store to where the background command $2 keeps what is known of it.
root=${XDG_CACHE_HOME:-$HOME/.cache}/coder-k8s/commands
store=$root/$2
