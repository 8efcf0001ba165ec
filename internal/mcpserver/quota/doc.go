// Package quota bounds how much each user has under way at once, so that nobody locks
// everybody else out. Who has nothing under way takes no memory.
package quota
