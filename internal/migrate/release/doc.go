// Package release owns what Helm keeps of a release in the cluster: a Secret for
// each revision, whose only key holds JSON, compressed and in base64. Helm 3 and 4
// write the same.
//
// The values in it may hold secrets, so nothing of them stands in an error.
package release
