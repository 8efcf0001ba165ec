// Package workspace implements CoderWorkspace: the conversion of a workspace of Coder and its
// record to an object, the writes to Coder, validation, table, and subresources.
//
// The subresources exec and portforward use the protocols of pods/exec and pods/portforward, as
// client-go's remotecommand and portforward use them (stream.go). A command, or a connection that
// carries SSH, is served over WebSocket (v5.channel.k8s.io) and SPDY (v4.channel.k8s.io). Ports are
// served over SPDY and over SPDY in WebSocket (SPDY/3.1+portforward.k8s.io). The servers of the
// Kubernetes libraries are used if there are any. They have no WebSocket server that runs a command
// itself, so it is implemented here.
//
// Invariants:
//   - One function converts a workspace of Coder, its record and the previous object to
//     an object. So all verbs return the same object.
//   - spec is the desired state: the state that was last requested in Coder (running is
//     true while the newest build is a start, even if that start failed), and on top of
//     it the change that is waiting or that Coder refused.
//   - A workspace has one running build at a time. A change that waits for the end of a
//     build is stored in the record, where the newest change wins. Settle applies it.
//   - A change that needs a start of a workspace that runs is a restart: a stop, and then
//     the start with the change.
//   - A change is sent to Coder first and recorded afterwards. There are three exceptions
//     that Coder cannot store: a creation, a restart and a deletion are recorded before
//     their first step. Each step first reads the state in Coder, so that the sequence
//     can resume at any step.
//   - A deleted workspace keeps the operator's finalizer until it is gone in Coder. The
//     deletion in Coder starts when only that finalizer is left.
//   - decide determines what an update means: the difference, the permission and the build. Updates
//     and dry runs use it. Every difference of the spec is authorized as the caller before anything is
//     sent or stored, also one that only the record stores.
//   - A dry run writes nothing.
package workspace
