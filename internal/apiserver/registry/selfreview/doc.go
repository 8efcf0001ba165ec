// Package selfreview answers a caller's question who they are in each Coder of a
// namespace. Nothing of it is kept.
package selfreview
