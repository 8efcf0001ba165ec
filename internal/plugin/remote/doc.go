// Package remote implements the commands that act inside a workspace: kubectl coder exec, ssh,
// config-ssh, cp and port-forward. It also starts a workspace for them.
//
// The commands use the subresources exec and portforward of coderworkspaces with client-go's
// clients for pods/exec and pods/portforward. kube-apiserver authenticates, authorizes and audits
// them. The user's machine needs neither a Coder client nor a Coder token.
//
// cp packs files of this machine into a tar archive, and unpacks the archive from a workspace
// (archive.go, unpack.go). Invariants of that:
//
//   - Unpacking writes nothing outside of the destination, whatever the archive contains. It does
//     not follow or create symbolic links that lead out of it.
//   - A file gets its name only when it is complete.
//   - Entries that were not copied are reported. The memory usage does not depend on the size of
//     files.
package remote
