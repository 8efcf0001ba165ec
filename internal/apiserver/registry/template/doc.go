// Package template implements CoderTemplate: conversion from the Coder API, conditions, validation,
// table, the requests to Coder for each verb, the promotion of built versions, and the subresources
// files, parameters, promote and log. It also implements CoderTemplateVersion, which is read-only.
//
// A candidate is the requested version while spec.activation is Manual or AfterTest: it becomes active
// only by a promotion, which is a change of spec.versionID, or with AfterTest when its tests have succeeded.
//
// Invariants:
//   - The server does not limit the time that the build of a version takes. Clients limit how
//     long they wait.
//   - The build of a version takes longer than the request that created it. The intent to
//     make it active is stored in the record of the template before the version is created,
//     so it survives a restart, and the next leader continues.
//   - A content consists of files, variables and tags. The name of a version is derived
//     from its content, or was free when it was requested. So if the response to a creation
//     is lost, the version is found by its name and not created again. A content that
//     equals the requested or the active one creates no version. A failed build is
//     retried only with another spec.versionName (decide.go).
//   - A version becomes active only if its build succeeded, if it is the newest requested
//     one, and if nobody has made another version active meanwhile: that would be the
//     newer decision.
//   - A candidate waits until it is promoted or replaced, whichever version is active meanwhile. If
//     another version is made active here, spec.files does not change, so the version that it shows
//     is the candidate. A change of spec.activation makes no version active.
//   - With AfterTest, a candidate is tested and promoted by itself only if the last change of files, variables or
//     tags requested it, or a changed Secret did, and if no other version has become active since. So a
//     version that was rolled back stays a candidate.
//   - The result of a test is read from the CoderTemplateTest that the operator created. Its name contains a keyed
//     hash of its whole spec, so nobody else creates it first. Its UID is recorded, and its spec is compared. A client that
//     may write codertemplatetests/status can forge the result.
//   - status.history is that of the previous object, with a new entry if another version is active.
//   - spec.files shows the source of exactly one version: the requested one while it is
//     built, after it failed or while it is a candidate, otherwise the active one. So a client reads what it
//     applied, and applying the same files again is no change.
//   - GET, LIST and WATCH return the same object. An archive with a given ID never changes,
//     so its text is taken from the object that shows it. If a source has no text, or more
//     than fits into an object, spec.files is empty: status.source describes the source,
//     condition FilesAvailable is false, and codertemplates/files returns it. If Coder is
//     unreachable, the result is an error.
//   - spec.files contains all text files of an archive. A text file that a client removes
//     from it is removed from the template. Binary files cannot be in spec.files. They stay
//     until the archive is replaced through codertemplates/files, or until a text file gets
//     their path. status.source.inline is false while there are any. If spec.files was
//     empty, setting it replaces the whole source.
//   - A policy field that is unset keeps its value in Coder, and so do spec.files and
//     spec.versionID. Variables and tags that the spec never contained keep the values of
//     the active version. A variable or a tag that is removed from the spec is reset to
//     its default.
//   - The value of a Secret is sent to Coder only: the record has a salted hash of the
//     whole content. A user whose change creates a new version must have permission to
//     get each Secret that the version uses. A change of a Secret is noticed within about
//     a minute.
//   - A change of data that only the record holds makes no request to Coder, except that a mapped caller needs the
//     permission to update the template.
//   - decide (decide.go) is the only place that decides what an update means: difference, permission, plan. A dry
//     run ends there, and apply (write.go) makes the change. A change that asks Coder is based on the template as it is
//     there: if it differs from the object, the newer object is stored first.
//   - The subresources parameters and log read from Coder each time, so they may
//     be newer than the object.
//   - The first version is active before it is built, because a template in Coder cannot
//     exist without a version. The conditions report the result of its build.
//   - CoderTemplateVersions are calculated from the templates, which carry their versions, and have no state of their own. All replicas number the
//     changes of one write in the same way (versionstorage.go).
package template
