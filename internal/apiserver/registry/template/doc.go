// Package template serves templates: conversion from what Coder tells,
// validation, table, the calls to Coder behind the verbs, and the promotion of
// versions that were built.
//
// Invariants:
//   - A version is built while the request that made it has long returned. What
//     is to be done with it stands in its message in Coder ("coder-k8s: promote
//     when built"), so it survives us, and any replica may do it.
//   - The active version changes only to one whose build succeeded.
//   - One version's source is what spec.files shows: the newest that we made, is
//     newer than the active one, and waits to be promoted or failed; else the
//     active one. So what was applied is what is read, and the same files again
//     are no change, also after a failed build: nothing is uploaded twice.
//   - GET and LIST show the same. An archive never changes under its id, so its
//     text is kept in memory within a bound. An archive that cannot be read at
//     all (too big, not an archive, gone) leaves spec.files out and sets
//     condition FilesAvailable to false; a Coder that does not answer is an error.
//   - spec.files unset means that somebody else keeps the source.
package template
