// Package quota limits the number of concurrent operations of each user, so that one user
// cannot block all others. A user without operations uses no memory.
package quota
