package coderd

import "time"

// Elapsed reports whether d has passed since a time that another host has recorded: Coder, kube-apiserver or another replica,
// whose clock may be wrong. A time that is later than d from now counts as elapsed, so that it delays nothing for longer than
// twice d.
func Elapsed(now, since time.Time, d time.Duration) bool {
	return !now.Before(since.Add(d)) || since.After(now.Add(d))
}
