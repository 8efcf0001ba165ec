// Package archive packs files of this machine into tar archives, and unpacks tar archives from a
// workspace.
//
// Invariants:
//
//   - Unpack writes nothing outside of the destination, whatever the archive contains. It does not
//     follow or create symbolic links that lead out of it.
//   - A file gets its name only when it is complete.
//   - Entries that were not copied are reported. The memory usage does not depend on the size of
//     files.
package archive
