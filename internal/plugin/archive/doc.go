// Package archive makes tar archives of files on this machine, and files of tar
// archives that a workspace sent.
//
// Invariants:
//
//   - Unpack writes nothing outside of the place that the user named, whatever the
//     archive contains. It follows no symbolic link that leads out, and makes none.
//   - A file has its name only when it is complete.
//   - What is left out is reported. Memory does not grow with the size of files.
package archive
