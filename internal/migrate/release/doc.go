// Package release reads releases that Helm stores in the cluster: a Secret for each revision, with
// one key that contains compressed JSON in base64. Helm 3 and 4 use the same format.
//
// The values may contain secrets, so errors contain none of them.
package release
