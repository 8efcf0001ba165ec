package diagnosis

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// expectation describes the first finding of a report.
type expectation struct {
	severity, where string
	// what, evidence and do are substrings of the fields of the finding.
	what, evidence, do string
	healthy            bool
}

func (want expectation) check(t *testing.T, r *Report) {
	t.Helper()
	if r.Healthy != want.healthy {
		t.Errorf("healthy is %v", r.Healthy)
	}
	if len(r.Findings) == 0 {
		if want.what != "" {
			t.Fatalf("no finding; the summary is %q", r.Summary)
		}
		return
	}
	got := r.Findings[0]
	if got.Severity != want.severity || got.Where != want.where {
		t.Errorf("the first finding is %s at %q, want %s at %q", got.Severity, got.Where, want.severity, want.where)
	}
	for _, part := range []struct{ name, got, want string }{
		{"what", got.What, want.what}, {"evidence", got.Evidence, want.evidence}, {"do", got.Do, want.do}, {"the summary", r.Summary, want.what},
	} {
		if part.want == "" && got.What != "" && want.what == "" {
			t.Errorf("unexpected finding %+v", got)
		}
		if !strings.Contains(part.got, part.want) {
			t.Errorf("%s is %q, want %q in it", part.name, part.got, part.want)
		}
	}
}

const (
	crashLine   = "error: create oidc config: configure oidc provider: 404 Not Found"
	databaseLog = `2026-11-20 12:24:45.999 [warn]  ping postgres: retrying  error="dial tcp 10.96.0.7:5432: connect: connection refused"  try=2`
	coderPod    = "Pod/coder-r1-x, container coder"
)

func TestControlPlaneRules(t *testing.T) {
	progressing := brokenPart("DeploymentAvailable", "Progressing", "0 of 1 pods are ready")
	replicaFailure := aDeployment()
	replicaFailure.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
		Message: `pods "coder-r1-" is forbidden: exceeded quota: compute, requested: cpu=2, used: cpu=8, limited: cpu=8`,
	}}
	for name, c := range map[string]struct {
		facts *controlPlaneFacts
		want  expectation
	}{
		"works": {
			factsOf(aControlPlane(working()...), aPod("1", runs(true))),
			expectation{healthy: true},
		},
		"never seen": {
			func() *controlPlaneFacts { f := factsOf(aControlPlane(), nil); f.deploymentMissing = true; return f }(),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "has not reconciled it", do: "operator"},
		},
		"behind": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(working()...), aPod("1", runs(true)))
				f.object.Generation = 2
				return f
			}(),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: "newest change", evidence: "generation is 2", healthy: true},
		},
		"being deleted": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(no("Ready", "Deleting", "the control plane is being deleted and waits until its token is revoked in Coder")), nil)
				f.object.DeletionTimestamp, f.object.Finalizers = &now, []string{coderv1alpha1.FinalizerCleanup}
				return f
			}(),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "waits until its token is revoked", evidence: "Deleting"},
		},
		"name conflict": {
			factsOf(aControlPlane(brokenPart("ResourcesApplied", "NotOwned", `Service "coder" in namespace "coder" was not created by this operator`)...), nil),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: `belongs to another owner: Service "coder"`, do: "delete or rename"},
		},
		"invalid spec": {
			factsOf(aControlPlane(brokenPart("ResourcesApplied", "InvalidSpec", "spec.volumes[0].name: must be a DNS label")...), nil),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "spec.volumes[0].name", do: "correct the field"},
		},
		"scaled to zero": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(yes("Ready", "ScaledToZero", "spec.replicas is 0, so no pod runs")), nil)
				f.object.Spec.Replicas = ptr.To[int32](0)
				return f
			}(),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: "spec.replicas is 0", do: "replicas", healthy: true},
		},
		"no database": {
			factsOf(aControlPlane(brokenPart("DeploymentAvailable", "DatabaseMissing", "the spec configures no database")...), nil),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "configures no database", do: "spec.database"},
		},
		"no Secret of the database": {
			factsOf(aControlPlane(brokenPart("DeploymentAvailable", "DatabaseSecretMissing", `Secret "db" of spec.database does not exist`)...), nil),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: `Secret "db"`, do: "create the Secret"},
		},
		"missing Secret": {
			factsOf(aControlPlane(brokenPart("DeploymentAvailable", "SecretMissing", `Secret "s" has no key "k"`)...),
				aPod("1", waits("CreateContainerConfigError", `couldn't find key k in Secret coder/s`))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: `Secret "s" has no key "k"`, do: "create it"},
		},
		"missing Secret, pods run": {
			factsOf(aControlPlane(yes("Ready", "Ready", "it runs"), yes("DeploymentAvailable", "SecretMissing", `Secret "s" does not exist`)), aPod("1", runs(true))),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: `Secret "s" does not exist`, do: "create it", healthy: true},
		},
		"missing Secret, seen by the kubelet alone": {
			factsOf(aControlPlane(progressing...), aPod("1", waits("CreateContainerConfigError", `secret "s" not found`))),
			expectation{severity: "error", where: coderPod, what: `secret "s" not found`, evidence: "CreateContainerConfigError", do: "Secret"},
		},
		"image, in back-off": {
			factsOf(aControlPlane(progressing...), aPod("1", waits("ImagePullBackOff", `Back-off pulling image "x"`)),
				anEvent("Pod", "coder-r1-x", "Failed", "Error: ImagePullBackOff"),
				anEvent("Pod", "coder-r1-x", "Failed", `Failed to pull image "ghcr.io/coder/coder:v2.30.0": rpc error: code = NotFound desc = failed to resolve reference: ghcr.io/coder/coder:v2.30.0: not found`)),
			expectation{severity: "error", where: coderPod, what: `image "ghcr.io/coder/coder:v2.30.0" cannot be pulled: the registry has no such image or tag`, evidence: "code = NotFound", do: "spec.image"},
		},
		"image, registry does not resolve": {
			factsOf(aControlPlane(progressing...), aPod("1", waits("ErrImagePull",
				`failed to pull and unpack image "registry.invalid/coder:none": failed to resolve reference: dial tcp: lookup registry.invalid on 10.0.0.2:53: no such host`))),
			expectation{severity: "error", where: coderPod, what: "the name of the registry does not resolve", evidence: "registry.invalid", do: "DNS"},
		},
		"image, private": {
			factsOf(aControlPlane(progressing...), aPod("1", waits("ErrImagePull",
				`pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`))),
			expectation{severity: "error", where: coderPod, what: "refuses access, or has no such image", do: "pull secrets"},
		},
		"image, by the condition alone": {
			factsOf(aControlPlane(brokenPart("DeploymentAvailable", "ImagePullFailed", `image "x:none" of container "coder" cannot be fetched`)...), nil),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "x:none", do: "spec.image"},
		},
		"no node": {
			factsOf(aControlPlane(progressing...), unschedulable("0/3 nodes are available: 3 Insufficient cpu.")),
			expectation{severity: "error", where: "Pod/coder-r1-x", what: "3 Insufficient cpu", evidence: "Unschedulable", do: "spec.resources"},
		},
		"no volume": {
			factsOf(aControlPlane(progressing...), unschedulable(`0/1 nodes are available: persistentvolumeclaim "data" not found.`)),
			expectation{severity: "error", where: "Pod/coder-r1-x", what: `persistentvolumeclaim "data" not found`, do: "PersistentVolumeClaim"},
		},
		"volume not mounted": {
			factsOf(aControlPlane(progressing...), aPod("1", waits("ContainerCreating", "")),
				anEvent("Pod", "coder-r1-x", "FailedMount", `MountVolume.SetUp failed for volume "ca" : secret "ca" not found`)),
			expectation{severity: "error", where: "Pod/coder-r1-x", what: `secret "ca" not found`, evidence: "FailedMount", do: "spec.volumes"},
		},
		"quota, by an Event": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(progressing...), nil,
					anEvent("ReplicaSet", "coder-r1", "FailedCreate", `Error creating: pods "coder-r1-abc" is forbidden: exceeded quota: compute, requested: cpu=2`))
				f.sets[0].Status.Replicas = 0
				return f
			}(),
			expectation{severity: "error", where: "ReplicaSet/coder-r1", what: "exceeded quota: compute", do: "ResourceQuota"},
		},
		"a quota that was raised meanwhile": {
			factsOf(aControlPlane(working()...), aPod("1", runs(true)),
				anEvent("ReplicaSet", "coder-r1", "FailedCreate", `Error creating: pods "coder-r1-abc" is forbidden: exceeded quota: compute`)),
			expectation{healthy: true},
		},
		"quota, by the Deployment": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(progressing...), nil)
				f.deployment = replicaFailure
				return f
			}(),
			expectation{severity: "error", where: "Deployment/coder", what: "exceeded quota: compute", do: "ResourceQuota"},
		},
		"evicted": {
			func() *controlPlaneFacts {
				pod := aPod("1", corev1.ContainerStatus{})
				pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage."}
				return factsOf(aControlPlane(progressing...), pod)
			}(),
			expectation{severity: "error", where: "Pod/coder-r1-x", what: "Evicted", evidence: "ephemeral-storage", do: "spec.resources"},
		},
		"crash loop": {
			withLog(factsOf(aControlPlane(progressing...), aPod("1", crashed(1, "Error", 4))),
				aLog("Started\n"+crashLine+"\n", true)),
			expectation{severity: "error", where: coderPod, what: "code 1, 4 restarts: create oidc config", evidence: crashLine, do: "last log lines"},
		},
		"crash loop, words kept by the kubelet": {
			func() *controlPlaneFacts {
				status := crashed(2, "Error", 1)
				status.LastTerminationState.Terminated.Message = "error: unknown flag: --nope\n"
				return factsOf(aControlPlane(progressing...), aPod("1", status))
			}(),
			expectation{severity: "error", where: coderPod, what: "code 2, 1 restart: unknown flag: --nope"},
		},
		"crash loop, by the condition alone": {
			factsOf(aControlPlane(brokenPart("DeploymentAvailable", "CrashLooping", `container "coder" exited with code 1: no such flag`)...), nil),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "no such flag"},
		},
		"not the program": {
			factsOf(aControlPlane(progressing...), aPod("1", crashed(127, "Error", 2))),
			expectation{severity: "error", where: coderPod, what: "code 127", evidence: "without a message", do: "no such program"},
		},
		"out of memory": {
			factsOf(aControlPlane(progressing...), aPod("1", crashed(137, "OOMKilled", 2))),
			expectation{severity: "error", where: coderPod, what: "OOMKilled", do: "raise the memory limit in spec.resources"},
		},
		"not ready": {
			withLog(factsOf(aControlPlane(progressing...), aPod("1", runs(false)),
				anEvent("Pod", "coder-r1-x", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")),
				aLog("waiting for something\n", false)),
			expectation{severity: "error", where: coderPod, what: "Readiness probe failed", evidence: "waiting for something"},
		},
		"database, before the crash that it causes": {
			withLog(factsOf(aControlPlane(progressing...), aPod("1", crashed(1, "Error", 3))),
				aLog(databaseLog+"\nerror: connect to postgres: connect to postgres: unable to connect after 11 tries; last error: dial tcp 10.96.0.7:5432: connect: connection refused\n", true)),
			expectation{severity: "error", where: coderPod, what: "cannot use its database: no server listens", evidence: "10.96.0.7:5432", do: "spec.database"},
		},
		"database, while it still tries": {
			withLog(factsOf(aControlPlane(progressing...), aPod("1", runs(false)),
				anEvent("Pod", "coder-r1-x", "Unhealthy", "Readiness probe failed")),
				aLog(databaseLog, false)),
			expectation{severity: "error", where: coderPod, what: "cannot use its database", evidence: "retrying"},
		},
		"database, by the condition alone": {
			factsOf(aControlPlane(brokenPart("DeploymentAvailable", "DatabaseUnreachable",
				`Coder cannot use its database: pq: password authentication failed for user "coder"; check the database`)...), nil),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "refuses the user or the password", evidence: "password authentication failed", do: "correct the user and the password"},
		},
		"database, gone under a running Coder": {
			factsOf(aControlPlane(no("Ready", "Unreachable", "x"), yes("CoderReachable", "Reachable", "Coder v2.30.0 answers"),
				no("OperatorAccess", "Unreachable", "reading the user of the token: Internal error fetching API key by id (dial tcp 10.96.0.7:5432: connect: connection refused) (HTTP 500)")),
				aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "no server listens at the host and port of the database", evidence: "10.96.0.7:5432"},
		},
		"a database that was found after all": {
			withLog(factsOf(aControlPlane(progressing...), aPod("1", crashed(1, "Error", 3))),
				aLog(databaseLog+"\n"+crashLine+"\n", true)),
			expectation{severity: "error", where: coderPod, what: "create oidc config"},
		},
		"Coder does not answer, and the operator's own connection is refused": {
			factsOf(aControlPlane(no("Ready", "Unreachable", "x"), no("CoderReachable", "Unreachable", "dial tcp 10.96.0.8:80: connect: connection refused"),
				no("OperatorAccess", "Unreachable", "dial tcp 10.96.0.8:80: connect: connection refused")), aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "does not respond to the operator"},
		},
		"ended well, and runs again": {
			func() *controlPlaneFacts {
				status := runs(false)
				status.RestartCount, status.LastTerminationState.Terminated = 1, &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"}
				return factsOf(aControlPlane(progressing...), aPod("1", status))
			}(),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: "0 of 1 pods are ready"},
		},
		"Coder does not answer": {
			factsOf(aControlPlane(brokenPart("CoderReachable", "Unreachable", "asking for the version: no answer from http://coder.coder.svc")...), aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "does not respond to the operator", do: "NetworkPolicies"},
		},
		"credentials refused": {
			factsOf(aControlPlane(brokenPart("OperatorAccess", "CredentialsRefused", "Coder does not accept the password")...), aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "own account", do: "tokenSecretRef"},
		},
		"token refused": {
			factsOf(aControlPlane(brokenPart("OperatorAccess", "TokenRefused", "it is revoked")...), aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "rejects the operator's token", do: "owner"},
		},
		"token lost": {
			factsOf(aControlPlane(brokenPart("OperatorAccess", "TokenSecretMissing", `Secret "t" does not exist`)...), aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: `Secret "t"`, do: "create it"},
		},
		"rollout stuck": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(brokenPart("DeploymentAvailable", "ProgressDeadlineExceeded", "the rollout did not complete before its deadline")...), nil)
				f.earlier = []corev1.Pod{*aPod("0", runs(true))}
				return f
			}(),
			expectation{severity: "error", where: "Deployment/coder", what: "0 of 1 pods of the newest revision are ready, and 1 of the earlier one still serve requests", do: "revert"},
		},
		"starting": {
			factsOf(aControlPlane(progressing...), aPod("1", runs(false))),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: "0 of 1 pods are ready", do: "try again"},
		},
		"license expired": {
			factsOf(aControlPlane(append(working()[1:], no("Ready", "LicenseExpired", "x"), no("LicenseApplied", "LicenseExpired", "the license ended on 2026-01-01"))...), aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "the license has expired: the license ended on 2026-01-01", do: "licenseSecretRef"},
		},
		"shared database": {
			factsOf(aControlPlane(append(working(), no("DatabaseExclusive", "DatabaseShared", `CoderControlPlane "old" uses the same database`))...), aPod("1", runs(true))),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: "same database", do: "its own database", healthy: true},
		},
		"license ends soon": {
			factsOf(aControlPlane(append(working(), yes("LicenseApplied", "LicenseExpiring", "it ends in 3 days"))...), aPod("1", runs(true))),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: "expires soon", healthy: true},
		},
		"not exposed": {
			factsOf(aControlPlane(append(working()[1:], no("Ready", "RouteRefused", "x"), no("Exposed", "RouteRefused", `Gateway "g" refuses the HTTPRoute`))...), aPod("1", runs(true))),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: `Gateway "g" refuses`, do: "Gateway"},
		},
		"rights of workspaces": {
			factsOf(aControlPlane(append(working(), no("WorkspaceAccess", "NamespaceMissing", `namespace "w" does not exist`))...), aPod("1", runs(true))),
			expectation{severity: "warning", where: "CoderControlPlane/coder", what: `namespace "w" does not exist`, healthy: true},
		},
		"restarted": {
			func() *controlPlaneFacts {
				status := runs(true)
				status.RestartCount, status.LastTerminationState.Terminated = 2, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
				return factsOf(aControlPlane(working()...), aPod("1", status))
			}(),
			expectation{severity: "warning", where: coderPod, what: "code 137 (OOMKilled), 2 restarts", healthy: true},
		},
		"a provisioner": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(working()...), aPod("1", runs(true)))
				f.provisioners = []coderv1alpha1.CoderProvisioner{aProvisioner(false, nil)}
				return f
			}(),
			expectation{severity: "warning", where: "CoderProvisioner/builders", what: "no license allows", healthy: true},
		},
		"no Deployment": {
			func() *controlPlaneFacts {
				f := factsOf(aControlPlane(no("Ready", "Waiting", "waits"), no("DeploymentAvailable", "Waiting", "waiting until the Deployment is applied")), nil)
				f.deployment, f.deploymentMissing = nil, true
				return f
			}(),
			expectation{severity: "error", where: "Deployment/coder", what: "does not exist"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, reportControlPlane(c.facts)) })
	}
}

// TestCausesComeFirst checks that effects come after their causes.
func TestCausesComeFirst(t *testing.T) {
	f := factsOf(aControlPlane(brokenPart("DeploymentAvailable", "ProgressDeadlineExceeded", "the rollout did not complete before its deadline")...), aPod("1", crashed(1, "Error", 3)))
	f.logs = []containerLog{aLog(databaseLog, true)}
	f.object.Status.Conditions = append(f.object.Status.Conditions, no("WorkspaceAccess", "GrantForbidden", "may not"))
	var got []string
	for _, finding := range reportControlPlane(f).Findings {
		got = append(got, finding.Severity+" "+finding.Where+" "+strings.SplitN(finding.What, ":", 2)[0])
	}
	want := []string{
		"error " + coderPod + " Coder cannot use its database",
		"error " + coderPod + " the container exits repeatedly with code 1, 3 restarts",
		"error Deployment/coder the rollout did not complete before its deadline",
		"warning CoderControlPlane/coder Coder lacks permissions for workspaces in a namespace of spec.rbac",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEveryReasonOfTrouble checks that every failed condition leads to a finding.
func TestEveryReasonOfTrouble(t *testing.T) {
	for kind, reasons := range map[string][]string{
		"ResourcesApplied":    {"NotOwned", "InvalidName", "InvalidSpec", "ApplyFailed", "KindMissing", "Forbidden"},
		"DeploymentAvailable": {"SecretMissing", "ConfigMapMissing", "DatabaseSecretMissing", "DatabaseMissing", "DatabaseUnreachable", "ImagePullFailed", "CrashLooping", "ContainerConfigInvalid", "Unschedulable", "PodsRefused", "ProgressDeadlineExceeded"},
		"CoderReachable":      {"Unreachable"},
		"OperatorAccess":      {"TokenRefused", "TokenSecretMissing", "CredentialsRefused", "AdminJobFailed", "InvalidSpec", "Unreachable", "NotOwned"},
		"LicenseApplied":      {"LicenseExpired", "InvalidLicense", "SecretMissing", "Error", "Forbidden"},
		"Exposed":             {"KindMissing", "RouteRefused", "NotOwned", "InvalidSpec", "ApplyFailed"},
	} {
		for _, reason := range reasons {
			r := reportControlPlane(factsOf(aControlPlane(brokenPart(kind, reason, "the particular words")...), nil))
			if len(r.Findings) == 0 || r.Findings[0].Severity != severityError || r.Healthy ||
				!strings.Contains(r.Findings[0].What+r.Findings[0].Evidence, "the particular words") || r.Findings[0].Do == "" {
				t.Errorf("%s=False, %s: %+v", kind, reason, r.Findings)
			}
		}
	}
}

// TestNoCondition checks that nothing panics for objects without status.
func TestNoCondition(t *testing.T) {
	f := &controlPlaneFacts{object: &coderv1alpha1.CoderControlPlane{}}
	f.current = []corev1.Pod{{}, *aPod("1", corev1.ContainerStatus{})}
	f.sets = []appsv1.ReplicaSet{{}}
	f.object.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	if r := reportControlPlane(f); r.Healthy || r.Summary == "" {
		t.Errorf("%+v", r)
	}
}
