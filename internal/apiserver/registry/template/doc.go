// Package template serves templates: conversion from what Coder tells, conditions,
// validation, table, the calls to Coder behind the verbs, the promotion of versions
// that were built, and the subresources files, versions, parameters and log.
//
// Invariants:
//   - A version is built while the request that made it has long returned. That it
//     shall become the active one stands in the record of the template (intent)
//     before Coder is told of it, so it survives us, and the next writer goes on.
//   - Content is files, variables and tags. A version has a name that follows from
//     its content, or one that was free when it was asked for, so a version whose
//     creation was not answered is found by its name and not made again. The same
//     content as what is asked for, or active, is no new version. A build that
//     failed is tried again only under another spec.versionName.
//   - The active version changes only to one whose build succeeded, to the newest
//     that was asked for, and not where somebody else has made another one active
//     meanwhile: then that is the newer decision.
//   - One version's source is what spec.files shows: the one that is asked for,
//     while it is built or after it failed; else the active one. So what was
//     applied is what is read, and the same files again are no change.
//   - GET, LIST and WATCH show the same object. An archive never changes under its
//     id, so its text is taken from the object that shows it. A source with more
//     text than fits, or with none, leaves spec.files out: status.source describes
//     it, condition FilesAvailable is false, codertemplates/files reads it. A Coder
//     that does not answer is an error.
//   - spec.files has all text of an archive. A text file that is left out of it is
//     gone from the template. Files that are not text cannot stand there, so they
//     stay until the archive is replaced through codertemplates/files, or a text
//     file takes their path; status.source.inline is false while there are any. Where
//     spec.files was left out, setting it replaces the whole source.
//   - A field of the policy that is unset keeps what Coder has, and so do spec.files
//     and spec.versionID. Values of variables, and tags, that the spec has never
//     named stay as the active version has them; one that is taken out of the spec
//     goes back to its default.
//   - The value of a Secret goes to Coder and nowhere else: the record has a salted
//     hash of all content. Who asks for a new version, by any change, must be
//     allowed to get each Secret that goes into it. A Secret that changes is seen
//     within a minute or so.
//   - What only a record keeps is changed without a call to Coder.
//   - The subresources versions, parameters and log ask Coder each time, so they may
//     be ahead of the object.
//   - The first version is active before it is built, because Coder knows no
//     template without a version. Conditions tell how its build ends.
package template
