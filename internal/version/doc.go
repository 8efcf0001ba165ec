// Package version owns what a build of coder-k8s says of itself. The linker fills
// it in; nothing changes it afterwards.
package version
