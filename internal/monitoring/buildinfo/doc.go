// Package buildinfo tells Prometheus which version runs. It is apart from package
// version, which programs without metrics import too.
package buildinfo
