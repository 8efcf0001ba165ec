// Package plugin implements kubectl coder: its commands, their flags and their exit codes. The
// files of a command begin with its name; exec.go also has ssh, and workspace*.go have start, stop,
// restart and update. What all commands share is in session.go (the streams, the clock, the desktop)
// and in cluster.go (the cluster that the flags select). startflag.go has the flags --agent and
// --start of the commands that act inside a workspace.
//
// The plugin connects only to Kubernetes, with the permissions of its caller. The resources are
// built in, without discovery. So it also works, and reports the problem, if the aggregated API is
// not available. The commands that act inside a workspace (exec, ssh, config-ssh, cp and
// port-forward) use the subresources exec and portforward of coderworkspaces with client-go's
// clients for pods/exec and pods/portforward. kube-apiserver authenticates, authorizes and audits
// them. The user's machine needs neither a Coder client nor a Coder token.
//
// Invariants:
//
//   - The plugin communicates only with the Kubernetes API and contains nothing of Coder's client
//     library, so that only this repository's license applies to it; a test checks this.
//   - status lists everything that could not be read, so that missing permissions do not look like
//     the absence of problems.
//   - tree finds dependent objects by owner references, as the garbage collector does. It finds
//     templates by the label of their control plane, workspaces by their template, and the pods of
//     a workspace by the label that Coder's templates set.
//   - logs writes logs unchanged if standard output is not a terminal. On a terminal, control
//     characters except tabs are removed, so that a log cannot control the terminal.
//   - start, stop and restart use the subresources of these names. They also retry a failed build,
//     and do not change the spec, which may be managed in Git. update changes the spec. An action
//     that ends running processes must be confirmed first.
//   - cp packs files of this machine into a tar archive, and unpacks the archive from a workspace.
//     Unpacking writes nothing outside of the destination, whatever the archive contains. It does
//     not follow or create symbolic links that lead out of it. A file gets its name only when it is
//     complete. Entries that were not copied are reported. The memory usage does not depend on the
//     size of files.
//   - login prints a password only if a flag requests it. token keeps no token, and prints only the
//     one that it was asked to create.
//   - template push writes text files to spec.files of the CoderTemplate, as with a manifest in
//     Git. Everything else uses the subresource files. It removes files that are not in the
//     directory. Files that Terraform generates are never pushed: .terraform, state and plans
//     contain secrets.
package plugin
