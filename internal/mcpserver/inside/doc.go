// Package inside does what the tools of toolset inside do: it runs commands in a
// workspace, and reads and writes its files.
//
// Everything goes through callers.Executor, as the caller, with small scripts of sh
// (scripts/). What a caller gives reaches them as arguments and is never part of a
// script. A workspace needs sh, the usual small programs (cat, head, tail, wc, cksum,
// cp, mv, mkdir, dd, sleep), and stat and find for lists; coreutils and BusyBox have
// them. Without setsid only the first process of a command can be stopped. The command
// itself runs in bash, or in sh if there is no bash.
//
// Invariants: nothing is kept here between two calls. A background command and its
// output are in the workspace, in ~/.cache/coder-k8s/commands, so any replica can be
// asked about it. Output is limited in size, and what is left out is counted. A command
// in the foreground ends with its call.
package inside
