// Package inside implements the tools of toolset inside: it runs commands in a workspace,
// and reads and writes its files.
//
// All operations run small sh scripts (scripts/) through callers.Exec, with the
// caller's permissions. Values from the caller are passed as arguments and are never part
// of a script. A workspace needs sh, the usual small programs (cat, head, tail, wc, cksum,
// cp, mv, mkdir, dd, sleep), and stat and find for lists; coreutils and BusyBox contain
// them. Without setsid and bash, only the first process of a command can be stopped. Commands
// run in bash, or in sh if there is no bash.
//
// Invariants: the server stores nothing between two calls. A background command and its
// output are in the workspace, in ~/.cache/coder-k8s/commands, so any replica can be asked
// about it. The output is limited in size, and the size of the omitted part is reported. A
// command in the foreground ends with its call.
package inside
