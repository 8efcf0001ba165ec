package admission

import "strings"

var backupKinds = []string{backup, schedule}

var backupRules = []rule{
	{name: "a control plane of no name", kinds: backupKinds, at: "spec.controlPlaneRef.name", says: "must be the name of a CoderControlPlane",
		bad: "controlPlaneRef: {name: A}", good: "controlPlaneRef: {name: a}"},
	{name: "a volume of no name", kinds: []string{backup}, at: "spec.destination.persistentVolumeClaim.claimName", says: "must be the name of a PersistentVolumeClaim",
		bad: "destination: {persistentVolumeClaim: {claimName: A}}", good: "destination: {persistentVolumeClaim: {claimName: a.b}}"},
	{name: "an image with blanks", kinds: []string{backup}, at: "spec.image", says: "must be an image without blanks",
		bad: "image: postgres 17", good: "image: 'postgres:17'"},
	{name: "an unknown deletion policy", kinds: []string{backup}, at: "spec.deletionPolicy", says: `Unsupported value: "Keep"`,
		bad: "deletionPolicy: Keep", good: "deletionPolicy: Retain"},
	{name: "no time to make it", kinds: []string{backup}, at: "spec.activeDeadlineSeconds", says: "should be greater than or equal to 1",
		bad: "activeDeadlineSeconds: 0", good: "activeDeadlineSeconds: 1"},
	{name: "backups in a volume of no name", kinds: []string{schedule}, at: "spec.template.destination.persistentVolumeClaim.claimName", says: "must be the name of a PersistentVolumeClaim",
		bad: "template: {destination: {persistentVolumeClaim: {claimName: A}}}", good: "template: {destination: {persistentVolumeClaim: {claimName: a}}}"},
	{name: "backups by an image with blanks", kinds: []string{schedule}, at: "spec.template.image", says: "must be an image without blanks",
		bad:  "template: {image: postgres 17, destination: {persistentVolumeClaim: {claimName: a}}}",
		good: "template: {image: 'postgres:17', destination: {persistentVolumeClaim: {claimName: a}}}"},
	{name: "no fields", kinds: []string{schedule}, at: "spec.schedule", says: "with five fields", bad: "schedule: nightly", good: "schedule: '@daily'"},
	{name: "a time zone in the schedule", kinds: []string{schedule}, at: "spec.schedule", says: "the time zone is in timeZone",
		bad: "schedule: CRON_TZ=UTC 0 2 * * *", good: "{schedule: 0 2 * * *, timeZone: UTC}"},
	{name: "no backup that is kept", kinds: []string{schedule}, at: "spec.keepLast", says: "should be greater than or equal to 1", bad: "keepLast: 0", good: "keepLast: 1"},
	{name: "a long name", kinds: []string{schedule}, at: "metadata.name", says: "must have at most 52 characters",
		badName: strings.Repeat("a", 53), goodName: strings.Repeat("a", 52)},

	{name: "an upgrade with an unknown backup", kinds: []string{controlPlane}, at: "spec.upgrade.backup", says: `Unsupported value: "Always"`,
		bad: "upgrade: {backup: Always}", good: "upgrade: {backup: Required}"},
	{name: "an upgrade that fails in an unknown way", kinds: []string{controlPlane}, at: "spec.upgrade.onFailure", says: `Unsupported value: "Rollback"`,
		bad: "upgrade: {onFailure: Rollback}", good: "upgrade: {onFailure: Hold}"},

	{name: "a restore from two places", kinds: []string{controlPlane}, at: "spec.bootstrap.fromBackup", says: "give exactly one",
		bad:  "bootstrap: {fromBackup: {name: a, files: {persistentVolumeClaim: {claimName: b}, directory: c/d}}}",
		good: "bootstrap: {fromBackup: {files: {persistentVolumeClaim: {claimName: b}, directory: c/d}}}"},
	{name: "a restore from no place", kinds: []string{controlPlane}, at: "spec.bootstrap.fromBackup", says: "give exactly one",
		bad: "bootstrap: {fromBackup: {}}", good: "bootstrap: {fromBackup: {name: a}}"},
	{name: "a restore from no backup", kinds: []string{controlPlane}, at: "spec.bootstrap.fromBackup.name", says: "must be the name of a CoderBackup",
		bad: "bootstrap: {fromBackup: {name: A}}", good: "bootstrap: {fromBackup: {name: a-1}}"},
	{name: "a restore from no volume", kinds: []string{controlPlane}, at: "spec.bootstrap.fromBackup.files.persistentVolumeClaim.claimName", says: "must be the name of a PersistentVolumeClaim",
		bad:  "bootstrap: {fromBackup: {files: {persistentVolumeClaim: {claimName: B}, directory: c}}}",
		good: "bootstrap: {fromBackup: {files: {persistentVolumeClaim: {claimName: b}, directory: c}}}"},
	{name: "a restore from outside of the volume", kinds: []string{controlPlane}, at: "spec.bootstrap.fromBackup.files.directory", says: "must be a directory in the volume",
		bad:  "bootstrap: {fromBackup: {files: {persistentVolumeClaim: {claimName: b}, directory: c/../..}}}",
		good: "bootstrap: {fromBackup: {files: {persistentVolumeClaim: {claimName: b}, directory: c/d.1}}}"},
	{name: "a restore by an image with blanks", kinds: []string{controlPlane}, at: "spec.bootstrap.fromBackup.image", says: "must be an image without blanks",
		bad: "bootstrap: {fromBackup: {name: a, image: postgres 17}}", good: "bootstrap: {fromBackup: {name: a, image: 'postgres:17'}}"},
}

// backupTransitions are the changes that come too late.
var backupTransitions = []transition{
	{name: "a restore into a database in use", kinds: []string{controlPlane}, at: "spec.bootstrap", says: "because Coder already uses the database",
		before: "{}", bad: "bootstrap: {fromBackup: {name: a}}", good: "replicas: 2", status: "{version: v2.36.1}"},
	{name: "another restore", kinds: []string{controlPlane}, at: "spec.bootstrap", says: "because Coder already uses the database",
		before: "bootstrap: {fromBackup: {name: a}}", bad: "bootstrap: {fromBackup: {name: b}}", good: "{}", status: "{restore: {backup: a}}"},
	{name: "a restore into another database", kinds: []string{controlPlane}, at: "spec.bootstrap", says: "change spec.database to an empty one at the same time",
		before: "database: {secretRef: {name: a}}", bad: "database: {secretRef: {name: a}}\nbootstrap: {fromBackup: {name: a}}",
		good: "database: {secretRef: {name: b}}\nbootstrap: {fromBackup: {name: a}}", status: "{version: v2.36.1}"},
	{name: "the same restore into another database", kinds: []string{controlPlane}, at: "spec.bootstrap", says: "with a backup that was not restored before",
		before: "database: {secretRef: {name: a}}", bad: "database: {secretRef: {name: b}}\nbootstrap: {fromBackup: {name: a}}",
		good: "database: {secretRef: {name: b}}\nbootstrap: {fromBackup: {name: c}}", status: "{restore: {backup: a}}"},
	{name: "the same restore of files into another database", kinds: []string{controlPlane}, at: "spec.bootstrap", says: "with a backup that was not restored before",
		before: "database: {secretRef: {name: a}}",
		bad:    "database: {secretRef: {name: b}}\nbootstrap: {fromBackup: {files: {persistentVolumeClaim: {claimName: v}, directory: d}}}",
		good:   "database: {secretRef: {name: b}}", status: "{restore: {backup: v/d}}"},
	{name: "another backup", kinds: []string{backup}, at: "spec", says: "create another CoderBackup",
		before: "{}", bad: "destination: {persistentVolumeClaim: {claimName: b}}", good: "deletionPolicy: Retain"},
}
