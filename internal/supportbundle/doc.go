// Package supportbundle creates the archive for an issue report: versions, objects, logs
// and problems of an installation.
//
// Invariants:
//   - Everything in the archive is redacted, after all secrets that the caller may read
//     have been learned. Nothing is written before.
//   - Of Secrets and ConfigMaps, only names, keys and sizes are kept. Values of
//     environment variables, arguments, annotations and parameters are kept only if they
//     are known to be harmless.
//   - It uses only the caller's permissions and changes nothing in the cluster.
//   - If a part cannot be collected, it is listed in the README, and the rest is
//     collected. Size and time are limited.
package supportbundle
