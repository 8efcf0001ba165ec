// Package token is kubectl coder token: tokens of Coder that are restricted to one
// workspace. It keeps none, and prints only the one that it was asked to create.
package token
