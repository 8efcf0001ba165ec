package diagnosis

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// expectation describes a problem that a report must have.
type expectation struct {
	healthy bool
	object  string
	// says must be in the message of the problem and in the summary, and do in what to do or in the
	// message.
	says, do string
}

func (want expectation) check(t *testing.T, r *Report) {
	t.Helper()
	if r.Healthy != want.healthy {
		t.Errorf("healthy is %v: %s", r.Healthy, r.Summary)
	}
	if want.says == "" && len(r.Problems) > 0 {
		t.Errorf("problems %+v", r.Problems)
	}
	if !strings.Contains(r.Summary, want.says) {
		t.Errorf("the summary does not say %q: %s", want.says, r.Summary)
	}
	for _, p := range r.Problems {
		if p.Object == want.object && strings.Contains(p.Message, want.says) && strings.Contains(p.Do+p.Message, want.do) {
			return
		}
	}
	if want.says != "" {
		t.Errorf("no problem of %s says %q and %q: %+v", want.object, want.says, want.do, r.Problems)
	}
}

const (
	crashLine   = "error: create oidc config: configure oidc provider: 404 Not Found"
	databaseLog = `2026-11-20 12:24:45.999 [warn]  ping postgres: retrying  error="dial tcp 10.96.0.7:5432: connect: connection refused"  try=2`
	coderPod    = "Pod/coder-r4-xxxxx"
	ourself     = "CoderControlPlane/coder"
)

// with returns a fixture with a control plane, its ReplicaSet and these objects.
func with(cp *coderv1alpha1.CoderControlPlane, others ...client.Object) *fixture {
	return &fixture{objects: append([]client.Object{cp, aReplicaSet("4", 1, 1)}, others...), raw: map[string]string{}}
}

// saying returns a fixture whose pod has these logs.
func (w *fixture) saying(current, previous string) *fixture {
	for path, text := range map[string]string{podLog: current, podLog + "?previous": previous} {
		if text != "" {
			w.raw[path] = text
		}
	}
	return w
}

func TestControlPlaneConditions(t *testing.T) {
	running := aPod("4", runs(true))
	for name, c := range map[string]struct {
		fixture *fixture
		want    expectation
	}{
		"works":         {with(aControlPlane(working()...), running), expectation{healthy: true}},
		"never seen":    {with(aControlPlane()), expectation{object: ourself, says: "has not reconciled it", do: "operator"}},
		"being deleted": {with(deletedControlPlane()), expectation{object: ourself, says: "waits until its token is revoked", do: ""}},
		"its finalizers": {
			with(deletedControlPlane()), expectation{object: ourself, says: "waits for the finalizers " + coderv1alpha1.FinalizerCleanup, do: "which controllers"},
		},
		"behind": {
			with(func() *coderv1alpha1.CoderControlPlane {
				cp := aControlPlane(working()...)
				cp.Generation = 2
				return cp
			}(), running),
			expectation{healthy: true, object: ourself, says: "newest change", do: "operator runs"},
		},
		"scaled to zero": {
			with(aControlPlane(yes("Ready", "ScaledToZero", "spec.replicas is 0, so no pod runs"))),
			expectation{healthy: true, object: ourself, says: "spec.replicas is 0"},
		},
		"missing Secret, pods run": {
			with(aControlPlane(yes("Ready", "Ready", "it runs"), yes("DeploymentAvailable", "SecretMissing", `1 of 1 pods are ready, but new pods cannot start: Secret "s" does not exist`)), running),
			expectation{healthy: true, object: ourself, says: `Secret "s" does not exist`},
		},
		"license ends soon": {
			with(aControlPlane(append(working(), yes("LicenseApplied", "LicenseExpiring", "it ends in 3 days"))...), running),
			expectation{healthy: true, object: ourself, says: "it ends in 3 days"},
		},
		"rights of workspaces": {
			with(aControlPlane(append(working(), no("WorkspaceAccess", "NamespaceMissing", `namespace "w" does not exist`))...), running),
			expectation{healthy: true, object: ourself, says: `namespace "w" does not exist`},
		},
		"shared database": {
			with(aControlPlane(append(working(), no("DatabaseExclusive", "DatabaseShared", `CoderControlPlane "old" uses the same database`))...), running),
			expectation{healthy: true, object: ourself, says: "same database"},
		},
		"a new version, works": {
			with(aControlPlane(append(working(), no("VersionSupported", "NewerVersion", "Coder v2.99.0 is newer"))...), running), expectation{healthy: true},
		},
		"a new version, fails": {
			with(aControlPlane(append([]metav1.Condition{no("VersionSupported", "NewerVersion", "Coder v2.99.0 is newer")}, brokenPart("Served", "Waiting", "waiting")...)...), running),
			expectation{object: ourself, says: "Coder v2.99.0 is newer"},
		},
		"a provisioner": {
			with(aControlPlane(working()...), running, aProvisioner(false)), expectation{healthy: true, object: "CoderProvisioner/builders", says: "no license allows"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, c.fixture.controlPlane(t)) })
	}
}

func deletedControlPlane() *coderv1alpha1.CoderControlPlane {
	cp := aControlPlane(no("Ready", "Deleting", "the control plane is being deleted and waits until its token is revoked in Coder"))
	cp.DeletionTimestamp, cp.Finalizers = &now, []string{coderv1alpha1.FinalizerCleanup}
	return cp
}

func TestControlPlanePods(t *testing.T) {
	progressing := func() *coderv1alpha1.CoderControlPlane {
		return aControlPlane(brokenPart("DeploymentAvailable", "Progressing", "0 of 1 pods are ready")...)
	}
	refused := aReplicaSet("4", 0, 1)
	refused.Status.Conditions = []appsv1.ReplicaSetCondition{{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
		Message: `pods "coder-r4-abc" is forbidden: exceeded quota: compute, requested: cpu=2`,
	}}
	kept := crashed(2, "Error", 1)
	kept.LastTerminationState.Terminated.Message = "error: unknown flag: --nope\n"
	evicted := aPod("4", corev1.ContainerStatus{})
	evicted.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage."}
	stuck := aPod("4", waits("ContainerCreating", ""))
	stuck.Spec.NodeName = "n"
	again := runs(true)
	again.RestartCount, again.LastTerminationState.Terminated = 2, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	for name, c := range map[string]struct {
		fixture *fixture
		want    expectation
	}{
		"starting": {with(progressing(), aPod("4", runs(false))), expectation{object: ourself, says: "0 of 1 pods are ready"}},
		"missing Secret": {
			with(progressing(), aPod("4", waits("CreateContainerConfigError", `secret "s" not found`))), expectation{object: coderPod, says: `secret "s" not found`, do: "Secret"},
		},
		"image, in back-off": {
			with(progressing(), aPod("4", waits("ImagePullBackOff", `Back-off pulling image "x"`)),
				anEvent("Pod", "coder-r4-xxxxx", "Failed", `Failed to pull image "ghcr.io/coder/coder:v2.30.0": rpc error: code = NotFound desc = failed to resolve reference: ghcr.io/coder/coder:v2.30.0: not found`)),
			expectation{object: coderPod, says: "the registry has no such image or tag", do: "correct the name or the tag in the image in the spec"},
		},
		"image, private": {
			with(progressing(), aPod("4", waits("ErrImagePull",
				`pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`))),
			expectation{object: coderPod, says: "refuses access, or has no such image", do: "pull secrets"},
		},
		"no node":   {with(progressing(), unschedulable("0/3 nodes are available: 3 Insufficient cpu.")), expectation{object: coderPod, says: "3 Insufficient cpu", do: "lower the requests"}},
		"no volume": {with(progressing(), unschedulable(`persistentvolumeclaim "data" not found.`)), expectation{object: coderPod, says: `"data" not found`, do: "PersistentVolumeClaim"}},
		"volume not mounted": {
			with(progressing(), stuck, anEvent("Pod", "coder-r4-xxxxx", "FailedMount", `MountVolume.SetUp failed for volume "ca" : secret "ca" not found`)),
			expectation{object: coderPod, says: `secret "ca" not found`, do: "the volumes in the spec"},
		},
		"quota": {
			&fixture{objects: []client.Object{progressing(), refused}}, expectation{object: "ReplicaSet/coder-r4", says: "exceeded quota: compute", do: "ResourceQuota"},
		},
		"evicted":            {with(progressing(), evicted), expectation{object: coderPod, says: "ephemeral-storage", do: "requests"}},
		"crash loop":         {with(progressing(), aPod("4", crashed(1, "Error", 4))).saying("", "Started\n"+crashLine+"\n"), expectation{object: coderPod, says: "code 1 (CrashLoopBackOff): create oidc config", do: "last log lines"}},
		"kept words":         {with(progressing(), aPod("4", kept)), expectation{object: coderPod, says: "unknown flag: --nope"}},
		"not the program":    {with(progressing(), aPod("4", crashed(127, "Error", 2))), expectation{object: coderPod, says: "code 127", do: "no such program"}},
		"out of memory":      {with(progressing(), aPod("4", crashed(137, "OOMKilled", 2))), expectation{object: coderPod, says: "OOMKilled", do: "raise the memory limit in the spec"}},
		"restarted":          {with(aControlPlane(working()...), aPod("4", again)), expectation{healthy: true, object: coderPod, says: "code 137 (OOMKilled); restarts: 2"}},
		"database, ended":    {with(progressing(), aPod("4", crashed(1, "Error", 3))).saying("", databaseLog), expectation{object: coderPod, says: "cannot use its database: no server listens", do: "spec.database"}},
		"database, retrying": {with(progressing(), aPod("4", runs(false))).saying(databaseLog, ""), expectation{object: coderPod, says: "cannot use its database: no server listens", do: "PostgreSQL runs"}},
		"a database that was found after all": {
			with(progressing(), aPod("4", crashed(1, "Error", 3))).saying("", databaseLog+"\n"+crashLine+"\n"), expectation{object: coderPod, says: "create oidc config"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, c.fixture.controlPlane(t)) })
	}
}

// TestEveryReasonOfTrouble checks that a report contains every failed condition once, and first.
func TestEveryReasonOfTrouble(t *testing.T) {
	for kind, reasons := range map[string][]string{
		"ResourcesApplied":    {"NotOwned", "InvalidName", "InvalidSpec", "ApplyFailed", "KindMissing", "Forbidden"},
		"DeploymentAvailable": {"SecretMissing", "DatabaseMissing", "DatabaseUnreachable", "ImagePullFailed", "CrashLooping", "PodsRefused", "ProgressDeadlineExceeded"},
		"CoderReachable":      {"Unreachable"},
		"OperatorAccess":      {"TokenRefused", "CredentialsRefused", "AdminJobFailed", "Unreachable"},
		"LicenseApplied":      {"LicenseExpired", "InvalidLicense", "SecretMissing"},
		"Exposed":             {"KindMissing", "RouteRefused"},
	} {
		for _, reason := range reasons {
			w := &fixture{objects: []client.Object{aControlPlane(brokenPart(kind, reason, "the particular words")...)}}
			r := w.controlPlane(t)
			if r.Healthy || len(r.Problems) != 1 || r.Problems[0].Reason != reason || !strings.Contains(r.Summary, "is not ready: the particular words") {
				t.Errorf("%s=False, %s: %s %+v", kind, reason, r.Summary, r.Problems)
			}
		}
	}
}

// TestNoCondition checks that nothing panics for objects without status.
func TestNoCondition(t *testing.T) {
	cp := aControlPlane(metav1.Condition{Type: "Ready"})
	pod := aPod("4", corev1.ContainerStatus{})
	pod.Status = corev1.PodStatus{}
	if r := with(cp, pod).controlPlane(t); r.Healthy || r.Summary == "" {
		t.Errorf("%+v", r)
	}
}
