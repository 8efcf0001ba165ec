// Package supportbundle owns the archive that an issue report needs: what is
// installed, what it is asked to do, what it says, and what is wrong with it.
//
// Invariants:
//   - Everything that goes into the archive goes through one redaction, after all
//     secrets that the caller may read have been learned. Nothing is written before.
//   - Of Secrets and ConfigMaps only names, keys and sizes are kept; of variables of
//     the environment, of arguments, annotations and parameters only what is known
//     to be harmless.
//   - With the caller's rights and no others, and nothing in the cluster is changed.
//   - A part that cannot be had is named in the README and the rest goes on. Size
//     and time are bounded.
package supportbundle
