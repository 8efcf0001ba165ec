// Package revision derives resourceVersions from what Coder tells.
//
// Coder keeps no revision, and its timestamps miss most changes: a workspace's
// updated_at never moves after its creation, and agents, TTL, schedule and
// dormancy leave no time behind. So a resourceVersion has two parts:
//
//	seconds since 2020 of the newest timestamp of the object << 22 | 22 bits of
//	a SHA-256 over the object as it is served
//
// It is a positive decimal number under 2^53 (until the year 2088), so clients
// that read it as a floating-point number do not spoil it. It changes whenever
// anything of the served object changes, but for one case in four million in
// which the hash of the change happens to be equal within the same second. It
// is the same on every replica and after every restart, because nothing but the
// object goes into it. It rises with every build; between builds it may fall,
// which nobody can see, because there is no watch yet that would compare.
//
// The revision of a list is the present time in the same form, with the lower
// bits set, so it is at least that of every object of the list.
package revision
