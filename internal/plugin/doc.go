// Package plugin implements kubectl coder: its commands, their flags and their exit codes. The
// files of a command begin with its name. The commands that act inside a workspace are in package
// remote. What all commands share is in package session.
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
//   - login prints a password only if a flag requests it. token keeps no token, and prints only the
//     one that it was asked to create.
//   - template push writes text files to spec.files of the CoderTemplate, as with a manifest in
//     Git. Everything else uses the subresource files. It removes files that are not in the
//     directory. Files that Terraform generates are never pushed: .terraform, state and plans
//     contain secrets.
package plugin
