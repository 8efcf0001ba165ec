// Package backup reconciles CoderBackup. A Job in the namespace of the control plane makes the backup
// with pg_dump and writes it to a volume (resources.DatabaseJob) or to a bucket of S3 (package bucket), or
// CloudNativePG makes it. The restore belongs to the control plane, so it is in package controlplane.
//
// Invariants:
//
//   - A CoderBackup makes one backup. Its Job has a fixed name, and an ended backup is never started
//     again, also if its Job was deleted. If the result of a Job is lost before it is recorded, a second Job
//     finds the complete files and reports the same result.
//   - The operator reads neither the connection URL of the database nor the access keys of a bucket. The pod gets them from
//     Secrets, and none of its containers gets both.
//   - A directory that belongs to another backup is neither overwritten nor deleted. The files contain the
//     uid of their CoderBackup.
//   - A Backup of CloudNativePG is created only if the author of the CoderBackup may create it (package
//     author). For a CoderBackup that the operator creates, that is the author of its schedule.
//   - Deleting a control plane does not delete its backups.
package backup
