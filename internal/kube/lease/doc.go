// Package lease provides the lock of a leader election that reports the loss of the Lease at once.
//
// The elector of client-go repeats a renewal until its deadline, even if a read shows that another
// process holds the Lease. So a leader that was paused would act beside its successor for that
// time. If it were shut down in that time, it would release the Lease of its successor.
package lease
