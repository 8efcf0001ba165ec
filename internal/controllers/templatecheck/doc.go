// Package templatecheck reconciles CoderTemplateTests: it creates one throwaway workspace from a version of
// a template, checks it, records the result and deletes the workspace.
//
// Invariants:
//
//   - A test has at most one workspace. Its name is derived from the UID of the test, and Coder has one
//     workspace of a name for each owner. The intention is in the status before the workspace is
//     requested, and each request is preceded by an uncached read of the test: a controller that was
//     paused, or whose cache is behind, requests nothing.
//   - A workspace is used, and deleted, only if the operator requested it for this test: build 1 was
//     started by the operator's own account from the tested version. Anything else of that name is left
//     alone.
//   - The result is in the status before the workspace is deleted, so that the deletion never becomes a
//     part of the result. A result never changes.
//   - The finalizer stays until Coder has proven that the workspace no longer exists, or never did. If
//     Coder does not answer for framework.DeletionLimit, the deletion ends with an Event that names the workspace.
//   - The owner is checked before each request for a workspace: an active user without any role, who may use the template. Coder
//     itself checks only the operator's account.
package templatecheck
