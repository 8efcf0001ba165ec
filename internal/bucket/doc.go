// Package bucket transfers the files of a CoderBackup between a directory and a bucket of S3. It runs in
// the pods of backups and restores (resources.DatabaseJob), beside database.sh, which reads and writes
// the database and creates the files.
//
// The objects of a backup are below <prefix>/<control plane>/<backup>/:
//
//   - manifest names the uid of the CoderBackup. It is written first and deleted last, so objects
//     without it, or with another uid, belong to someone else and are neither overwritten nor deleted.
//   - database.dump, or database.dump.age if it is encrypted.
//   - SHA256SUMS has the checksums of manifest and of the unencrypted dump. It is written last, after
//     the others were read back, so a backup with it is complete.
//
// A restore downloads and decrypts into a directory, where database.sh verifies the checksums.
package bucket
