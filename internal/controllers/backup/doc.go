// Package backup reconciles CoderBackup. A Job in the namespace of the control plane makes the backup
// with pg_dump and writes it to a volume (resources.DatabaseJob). The restore belongs to the control
// plane, so it is in package controlplane.
//
// Invariants:
//
//   - A CoderBackup makes one backup. Its Job has a fixed name, and an ended backup is never started
//     again, also if its Job was deleted. If the result of a Job is lost before it is recorded, a second Job
//     finds the complete files and reports the same result.
//   - The operator never reads the connection URL of the database. The pod gets it from the Secret.
//   - A directory that belongs to another backup is neither overwritten nor deleted. The files contain the
//     uid of their CoderBackup.
//   - Deleting a control plane does not delete its backups.
package backup
