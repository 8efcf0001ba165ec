// Package workspace serves workspaces: conversion from what Coder tells,
// validation, table, and the calls to Coder behind the verbs.
//
// Invariants:
//   - An object is made from one workspace of Coder and its connection alone, so
//     it is the same in every verb and on every replica. Times are whole
//     seconds, as Kubernetes writes them; lastUsedAt is whole minutes, so that
//     mere use does not change the object all the time.
//   - spec is what Coder was last told: running is true while the latest build
//     is a start, also where that start failed. metadata.generation stays 1,
//     because status always tells of the spec beside it.
//   - deletionTimestamp is there exactly while a deletion is under way. Where it
//     failed, the workspace lives on, its conditions say why, and DELETE may be
//     tried again.
//   - A workspace starts when it is created. Coder knows no other way, so
//     running: false is refused there rather than swallowed.
package workspace
