package plugin

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// upgradeAPI is sampleAPI with a control plane that runs Coder 2.36.1.
func upgradeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	api := sampleAPI(t)
	api.change(planes, "coder/coder", func(o fields) { o["spec"].(fields)["image"] = "ghcr.io/coder/coder:v2.36.1" })
	api.setStatus(planes, "coder", fields{"version": "v2.36.1+7bd778d", "image": "ghcr.io/coder/coder:v2.36.1"})
	return api
}

func TestUpgradePlan(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*fakeAPI)
		args    string
		code    int
		want    []string
	}{
		"a new minor version": {args: "--to 2.37.0", want: []string{
			"ghcr.io/coder/coder:v2.37.0", "NotADowngrade", "all old pods stop, then one new pod migrates the database", "the old image comes back", "sessions to workspaces", "is being built",
			"Backup", "no CoderBackupSchedule names the control plane",
		}},
		"a backup of a schedule": {args: "--to 2.37.0", want: []string{
			"like those of CoderBackupSchedule nightly", "the last of them is nightly-1", "BackupDestination", `PersistentVolumeClaim "backups" exists`,
		}, prepare: withSchedule(t, "persistentVolumeClaim: {claimName: backups}")},
		"a volume that is missing": {args: "--to 2.37.0", code: 1, want: []string{
			`The operator would refuse it: PersistentVolumeClaim "other" does not exist; create it, or correct spec.template.destination of CoderBackupSchedule "nightly"`,
		}, prepare: withSchedule(t, "persistentVolumeClaim: {claimName: other}")},
		"a Secret that the user cannot read": {args: "--to 2.37.0", want: []string{"BackupDestination", "Warning", "the operator checks it before a pod stops; it could not be checked here: no rights"}, prepare: func(api *fakeAPI) {
			withSchedule(t, "s3: {secretRef: {name: s3}}")(api)
			api.answer("GET /api/v1/namespaces/coder/secrets/s3", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "no rights"))
		}},
		"no CloudNativePG": {args: "--to 2.37.0", code: 1, want: []string{"The operator would refuse it: the cluster does not serve backups.postgresql.cnpg.io"}, prepare: withSchedule(t, "cloudNativePG: {clusterName: db}")},
		"a backup of CloudNativePG": {args: "--to 2.37.0", want: []string{`a Backup of CloudNativePG for the Cluster "db" can be created`}, prepare: func(api *fakeAPI) {
			withSchedule(t, "cloudNativePG: {clusterName: db}")(api)
			api.answer("POST /apis/postgresql.cnpg.io/v1/namespaces/coder/backups", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("dryRun") != metav1.DryRunAll {
					t.Error("a Backup is created")
				}
				respond(w, http.StatusCreated, fields{"apiVersion": "postgresql.cnpg.io/v1", "kind": "Backup", "metadata": fields{"name": "nightly-check-1", "namespace": "coder"}})
			})
		}},
		"a backup that is required, and not possible": {args: "--to 2.37.0", code: 1, want: []string{"The operator would refuse it: spec.upgrade.backup is Required"}, prepare: func(api *fakeAPI) {
			api.change(planes, "coder/coder", func(o fields) { o["spec"].(fields)["upgrade"] = fields{"backup": "Required"} })
		}},
		"a backup of another tool": {args: "--to 2.37.0", want: []string{
			"Backup", "Warning", "External, so the old pods serve until a backup is named: the annotation names no backup for this version; make a backup", "kubectl annotate -n coder codercontrolplane coder --overwrite coder.com/upgrade-backup=v2.37.0/NAME",
		}, prepare: externalBackup("v2.36.0/other")},
		"a backup of another tool, named": {args: "--to 2.37.0", want: []string{"Passed", `the annotation names the backup "rds:a/b" of another tool`}, prepare: externalBackup("2.37.0/rds:a/b")},
		"no backup, and no way back": {args: "--to 2.37.0", want: []string{"spec.upgrade.backup is Never", "the new image stays if it does not work"}, prepare: func(api *fakeAPI) {
			api.change(planes, "coder/coder", func(o fields) { o["spec"].(fields)["upgrade"] = fields{"backup": "Never", "onFailure": "Hold"} })
		}},
		"a version that nobody tried": {args: "--to 2.99.0", want: []string{"VersionSupported", "Warning", "Coder v2.99.0 is newer than the versions"}},
		"a patch":                     {args: "--to v2.36.2 coder", want: []string{"each new pod starts before an old one stops"}},
		"the image of the spec":       {want: []string{"nothing changes"}},
		"a downgrade": {args: "--to 2.30.0", code: 1, want: []string{
			"Failed", `The operator would refuse it: the image "ghcr.io/coder/coder:v2.30.0" is older than Coder v2.36.1+7bd778d`, `coder.com/allow-version: "v2.30.0"`,
		}},
		"an allowed downgrade": {args: "--to 2.30.0", want: []string{"Overridden"}, prepare: func(api *fakeAPI) {
			api.change(planes, "coder/coder", func(o fields) { o["metadata"].(fields)["annotations"] = fields{"coder.com/allow-version": "2.30.0"} })
		}},
		"a digest": {args: "--to mirror/coder@sha256:aa", code: 1, want: []string{"VersionKnown", `coder.com/allow-version: "sha256:aa"`}},
		"a strategy in the spec": {args: "--to 2.37.0", want: []string{"all old pods stop, then one new pod migrates the database"}, prepare: func(api *fakeAPI) {
			api.change(planes, "coder/coder", func(o fields) { o["spec"].(fields)["deployment"] = fields{"strategy": fields{"type": "RollingUpdate"}} })
		}},
		"the server is not known": {args: "--to 2.37.0", want: []string{"PostgreSQLVersion", "Warning", "the operator reads it before a pod stops"}},
		"a new server":            {args: "--to 2.37.0", want: []string{"the server is PostgreSQL 15, and Coder needs 13 or newer; CoderBackup new reports it"}, prepare: withServer(t, "15.4")},
		"an old server":           {args: "--to 2.37.0", code: 1, want: []string{"The operator would refuse it: the server of the database is PostgreSQL 12"}, prepare: withServer(t, "12.22")},
		"quotas":                  {args: "--to 2.39.0", want: []string{"QuotasNeedOutage", "all old pods stop before a new one starts, which Coder demands"}},
		"quotas, beside another": {args: "--to 2.39.0 coder", code: 1, want: []string{`The operator would refuse it: CoderControlPlane "beside" uses the same database`}, prepare: func(api *fakeAPI) {
			api.change(planes, "coder/coder", func(o fields) { o["spec"].(fields)["database"] = fields{"secretRef": fields{"name": "db"}} })
			api.apply(t, `apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: {name: beside, namespace: coder, uid: beside}
spec: {image: "coder:v2.36.1", database: {secretRef: {name: db, key: url}}}`)
		}},
		"quotas, without the right to list": {args: "--to 2.39.0 coder", want: []string{"control planes with the same database could not be looked for"}, prepare: func(api *fakeAPI) {
			api.answers["GET /apis/coder.com/v1alpha1/namespaces/coder/codercontrolplanes"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
		}},
		"newer provisioners": {args: "--to 2.37.0", want: []string{"CoderProvisioner build has the newer image coder:v2.38.0"}, prepare: func(api *fakeAPI) {
			api.change("/apis/coder.com/v1alpha1/coderprovisioners", "coder/build", func(o fields) { o["spec"].(fields)["image"] = "coder:v2.38.0" })
		}},
		"a build runs": {args: "--to 2.37.0", want: []string{"workspaces are being built, for example coder.ada.dev"}, prepare: func(api *fakeAPI) {
			api.setStatus(workspaces, "coder.ada.dev", fields{"phase": "Starting"})
		}},
		"workspaces cannot be read": {args: "--to 2.37.0", want: []string{"the workspaces could not be read: no rights"}, prepare: func(api *fakeAPI) {
			api.answer("GET "+inCoder+"/coderworkspaces", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "no rights"))
		}},
		"nothing ran yet": {args: "--to latest", want: []string{"nothing runs yet"}, prepare: func(api *fakeAPI) {
			api.setStatus(planes, "coder", fields{"version": "", "image": ""})
		}},
		"JSON": {args: "--to 2.30.0 -o json", code: 1, want: []string{`"allowed": false`, `"name": "NotADowngrade"`, `"wantedImage": "ghcr.io/coder/coder:v2.30.0"`}},
	} {
		t.Run(name, func(t *testing.T) {
			api := upgradeAPI(t)
			if c.prepare != nil {
				c.prepare(api)
			}
			got := newHarness().run(t, api, append([]string{"upgrade", "plan", "-n", "coder"}, strings.Fields(c.args)...)...)
			if got.code != c.code || got.err != "" {
				t.Errorf("exit code %d, want %d; standard error %q", got.code, c.code, got.err)
			}
			for _, want := range c.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("there is no %q in\n%s", want, got.out)
				}
			}
		})
	}
	newHarness().run(t, upgradeAPI(t), "upgrade", "plan", "-n", "empty").want(t, 1, "", "there is no control plane in namespace empty")
}

// externalBackup sets spec.upgrade.backup to External, with a value of the annotation.
func externalBackup(value string) func(*fakeAPI) {
	return func(api *fakeAPI) {
		api.change(planes, "coder/coder", func(o fields) {
			o["spec"].(fields)["upgrade"] = fields{"backup": "External"}
			o["metadata"].(fields)["annotations"] = fields{"coder.com/upgrade-backup": value}
		})
	}
}

// withServer adds two backups of the control plane, of which the newer one reports the version of the server.
func withServer(t *testing.T, version string) func(*fakeAPI) {
	return func(api *fakeAPI) {
		for name, of := range map[string][2]string{"new": {version, "03"}, "old": {"9.6.24", "02"}} {
			api.apply(t, `apiVersion: coder.com/v1alpha1
kind: CoderBackup
metadata: {name: `+name+`, namespace: coder}
spec: {controlPlaneRef: {name: coder}}
status: {phase: Completed, postgresVersion: "`+of[0]+`", completedAt: "2026-11-20T`+of[1]+`:00:00Z"}`)
		}
	}
}

// withSchedule adds a schedule with a destination, and the claim "backups".
func withSchedule(t *testing.T, destination string) func(*fakeAPI) {
	return func(api *fakeAPI) {
		api.apply(t, `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups, namespace: coder}
---
apiVersion: coder.com/v1alpha1
kind: CoderBackupSchedule
metadata: {name: nightly, namespace: coder}
spec: {controlPlaneRef: {name: coder}, template: {destination: {`+destination+`}}}
status: {lastSuccessTime: "2026-11-20T02:00:00Z", lastSuccessfulBackup: nightly-1}`)
	}
}

func TestUpgradeStatus(t *testing.T) {
	api := upgradeAPI(t)
	newHarness().run(t, api, "upgrade", "status", "-n", "coder").want(t, 0, "The operator has not upgraded coder/coder to another minor version.\n", "")
	upgrade := fields{
		"phase": "Migrating", "fromVersion": "v2.30.0", "fromImage": "coder:v2.30.0", "toImage": "coder:v2.36.1", "schemaBefore": 412,
		"startedAt": "2026-03-01T11:50:00Z", "phaseStartedAt": "2026-03-01T11:51:00Z", "backup": "coder-upgrade-1",
	}
	for phase, code := range map[string]int{"Migrating": 0, "Completed": 0, "Reverted": 1, "Failed": 1} {
		upgrade["phase"] = phase
		delete(upgrade, "finishedAt")
		if phase != "Migrating" {
			upgrade["finishedAt"] = "2026-03-01T11:53:00Z"
		}
		api.setStatus(planes, "coder", fields{"upgrade": upgrade, "conditions": []any{condition("Upgraded", "False", "Upgrade"+phase, "what to do")}})
		got := newHarness().run(t, api, "upgrade", "status", "-n", "coder", "coder")
		if got.code != code || got.err != "" {
			t.Errorf("%s: exit code %d, standard error %q", phase, got.code, got.err)
		}
		for _, want := range []string{"from v2.30.0 to v2.36.1", phase + " for 9m", "2026-03-01 11:50:00 UTC", "coder-upgrade-1, not created yet", "412 before", "what to do"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s: there is no %q in\n%s", phase, want, got.out)
			}
		}
	}

	// The backup of another tool.
	delete(upgrade, "backup")
	upgrade["phase"], upgrade["externalBackup"], upgrade["stoppedAt"] = "Migrating", "rds:before", "2026-03-01T11:51:30Z"
	api.setStatus(planes, "coder", fields{"upgrade": upgrade})
	got := newHarness().run(t, api, "upgrade", "status", "-n", "coder", "coder")
	if got.code != 0 || !strings.Contains(got.out, "rds:before, made by another tool") || !strings.Contains(got.out, "2026-03-01 11:51:30 UTC") {
		t.Errorf("exit code %d\n%s", got.code, got.out)
	}
}

func TestUpgradeRevert(t *testing.T) {
	const change = "spec:\n  bootstrap:\n    fromBackup:\n      name: coder-upgrade-1\n  database:\n    secretRef:\n      key: url\n      name: new\n  image: coder:v2.30.0\n"
	failed := func(t *testing.T, change fields) *fakeAPI {
		api := upgradeAPI(t)
		api.apply(t, `apiVersion: coder.com/v1alpha1
kind: CoderBackup
metadata: {name: coder-upgrade-1, namespace: coder}
status: {phase: Completed, completedAt: "2026-03-01T11:51:00Z"}`)
		upgrade := fields{
			"phase": "Failed", "fromVersion": "v2.30.0", "fromImage": "coder:v2.30.0", "toImage": "coder:v2.36.1", "schemaBefore": 412, "schemaAfter": 556,
			"startedAt": "2026-03-01T11:50:00Z", "phaseStartedAt": "2026-03-01T11:53:00Z", "finishedAt": "2026-03-01T11:53:00Z", "backup": "coder-upgrade-1",
		}
		maps.Copy(upgrade, change)
		api.setStatus(planes, "coder", fields{"upgrade": upgrade})
		return api
	}
	revert := func(api *fakeAPI, args ...string) answer {
		return newHarness().run(t, api, append([]string{"upgrade", "revert", "-n", "coder", "coder", "--database-secret", "new"}, args...)...)
	}

	api := failed(t, nil)
	var body map[string]any
	api.answer("PATCH /apis/coder.com/v1alpha1/namespaces/coder/codercontrolplanes/coder", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&body)
		respond(w, http.StatusOK, api.objects[planes]["coder/coder"].Object)
	})
	revert(api).want(t, 2, "", "All that changed in Coder since 2026-03-01T11:51:00Z is lost")
	if body != nil {
		t.Fatalf("without a confirmation the change was %v", body)
	}
	revert(api, "--print").want(t, 0, change, "is lost")
	revert(api, "--yes").want(t, 0, "kubectl -n coder wait codercontrolplane/coder", "")
	want := map[string]any{
		"image": "coder:v2.30.0", "database": map[string]any{"secretRef": map[string]any{"name": "new", "key": "url"}, "cloudNativePG": nil},
		"bootstrap": map[string]any{"fromBackup": map[string]any{"name": "coder-upgrade-1", "files": nil}},
	}
	if diff := cmp.Diff(want, body["spec"]); diff != "" {
		t.Errorf("the change is (-want +got):\n%s", diff)
	}

	for manager, mark := range map[string]func(o fields){
		"Argo CD": func(o fields) { o["annotations"] = fields{"argocd.argoproj.io/tracking-id": "a"} },
		"Flux":    func(o fields) { o["labels"] = fields{"kustomize.toolkit.fluxcd.io/name": "a"} },
		"Helm":    func(o fields) { o["managedFields"] = []any{fields{"manager": "helm", "operation": "Update"}} },
	} {
		api := failed(t, nil)
		api.change(planes, "coder/coder", func(o fields) { mark(o["metadata"].(fields)) })
		revert(api, "--yes").want(t, 0, change, manager+" manages the control plane, so nothing was changed")
		if len(api.writes) > 0 {
			t.Errorf("%s: the requests are %q", manager, api.writes)
		}
	}

	revert(upgradeAPI(t), "--yes").want(t, 1, "", "no upgrade of coder/coder has failed")
	revert(failed(t, fields{"schemaAfter": 412}), "--yes").want(t, 1, "", `set spec.image to "coder:v2.30.0"`)
	revert(failed(t, fields{"backup": ""}), "--yes").want(t, 1, "", "there is no backup of this upgrade")
	revert(failed(t, fields{"backup": "", "externalBackup": "rds:before", "stoppedAt": "2026-03-01T11:51:30Z"}), "--yes").want(t, 1, "",
		`restore the backup "rds:before", or the state of 2026-03-01T11:51:30Z, when the old pods had stopped, into another database with the tool that made it, and then set, in one change, spec.database to that database and spec.image: "coder:v2.30.0"`)
	revert(failed(t, fields{"externalBackup": "coder-upgrade-1"}), "--yes").want(t, 1, "",
		`restore the backup "coder-upgrade-1" of CloudNativePG into a new Cluster with spec.bootstrap.recovery of that Cluster, and then set, in one change, spec.database`)
	revert(failed(t, fields{"backup": "gone"}), "--yes").want(t, 1, "", `"gone" not found`)
	api = failed(t, nil)
	api.setStatus(planes, "coder", fields{"restore": fields{"backup": "coder-upgrade-1"}})
	revert(api, "--yes").want(t, 1, "", "was restored already")
	newHarness().run(t, upgradeAPI(t), "upgrade", "revert", "-n", "coder").want(t, 2, "", "--database-secret is missing")
}
