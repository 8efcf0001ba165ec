// Package selfreview implements CoderSelfReview, which reports the caller's identity in each Coder
// of a namespace. Reviews are not stored.
package selfreview
