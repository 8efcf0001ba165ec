package diagnosis

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// controlPlaneRules returns the rules, ordered from causes to effects.
func controlPlaneRules() []rule[*controlPlaneFacts] {
	const refused = metav1.ConditionFalse
	return []rule[*controlPlaneFacts]{
		deletion, neverSeen, byReason(coderv1alpha1.ConditionResourcesApplied, refused, unapplied), scaledToZero,
		byReason(coderv1alpha1.ConditionDeploymentAvailable, refused, missingReferences), refusedByCondition,
		unusableDatabaseOfCoder, podTroubles, podsByCondition, missingDeployment, unreachableCoder, refusedAccess, stuckRollout, notReady,
		byReason(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionTrue, lostReferences),
		byReason(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionTrue, endingLicense),
		byReason(coderv1alpha1.ConditionLicenseApplied, refused, missingLicense),
		byReason(coderv1alpha1.ConditionExposed, refused, missingExposure),
		byReason(coderv1alpha1.ConditionWorkspaceAccess, refused, missingWorkspaceAccess),
		byReason(coderv1alpha1.ConditionMetricsExported, refused, missingMetrics),
		byReason(coderv1alpha1.ConditionDatabaseExclusive, refused, sharedDatabase), unserved,
		unreadyProvisioners, failedVersions, behind,
	}
}

func (f *controlPlaneFacts) where() string { return "CoderControlPlane/" + f.object.Name }

func (f *controlPlaneFacts) condition(kind string) metav1.Condition {
	return findCondition(f.object.Status.Conditions, kind)
}

// fails reports whether a condition exists and is False.
func (f *controlPlaneFacts) fails(kind string) (metav1.Condition, bool) {
	c := f.condition(kind)
	return c, c.Status == metav1.ConditionFalse
}

// finding returns a finding about the control plane with a condition as evidence.
func (f *controlPlaneFacts) finding(severity string, c metav1.Condition, what, do string) Finding {
	return Finding{Severity: severity, Where: f.where(), What: what + ": " + oneLine(c.Message, longestSentence), Evidence: proof(c), Do: do}
}

func deletion(f *controlPlaneFacts) []conclusion {
	if f.object.DeletionTimestamp.IsZero() {
		return nil
	}
	ready := f.condition(coderv1alpha1.ConditionReady)
	what := fmt.Sprintf("it has been in deletion since %s and waits for finalizers %s",
		f.object.DeletionTimestamp.UTC().Format(time.RFC3339), strings.Join(f.object.Finalizers, ", "))
	if ready.Reason == coderv1alpha1.ReasonDeleting {
		what += ": " + oneLine(ready.Message, longestSentence)
	}
	return one(Finding{
		Severity: severityError, Where: f.where(), What: what, Evidence: proof(ready),
		Do: "wait a minute for the operator; if nothing changes, check that the operator runs, and which controllers set the other finalizers",
	}, showEvents(f.object.Namespace, "CoderControlPlane", f.object.Name))
}

func neverSeen(f *controlPlaneFacts) []conclusion {
	if f.condition(coderv1alpha1.ConditionReady).Status != "" {
		return nil
	}
	return one(Finding{
		Severity: severityError, Where: f.where(), What: "the operator has not reconciled it yet",
		Evidence: "status has no condition Ready",
		Do:       "check that the operator (coder-k8s) runs and holds its lease, and that it watches this namespace (--watch-namespaces)",
	}, checkHealth())
}

// behind reports a change of the spec that the operator has not reconciled yet.
func behind(f *controlPlaneFacts) []conclusion {
	seen := f.object.Status.ObservedGeneration
	if seen == f.object.Generation || f.condition(coderv1alpha1.ConditionReady).Status == "" {
		return nil
	}
	return one(Finding{
		Severity: severityWarning, Where: f.where(), What: "the operator has not reconciled the newest change of the spec yet",
		Evidence: fmt.Sprintf("metadata.generation is %d, status.observedGeneration %d", f.object.Generation, seen),
		Do:       "try again in some seconds; if it does not change, check that the operator runs",
	}, checkHealth())
}

func scaledToZero(f *controlPlaneFacts) []conclusion {
	const what, do = "Coder is scaled to 0, so it does not run", "set replicas to 1 or more to start it"
	start := f.call("change_control_plane").with("replicas", 1)
	for _, kind := range []string{coderv1alpha1.ConditionDeploymentAvailable, coderv1alpha1.ConditionReady} {
		if c := f.condition(kind); c.Reason == coderv1alpha1.ReasonScaledToZero {
			return one(f.finding(severityWarning, c, what, do), start)
		}
	}
	if ptr.Deref(f.object.Spec.Replicas, 1) != 0 {
		return nil
	}
	return one(Finding{Severity: severityWarning, Where: f.where(), What: what + ": spec.replicas is 0", Do: do}, start)
}

func (f *controlPlaneFacts) call(tool string) Next {
	return about(tool, f.object.Namespace, f.object.Name)
}

// unreachableCoder reports a Coder API that does not respond to the operator.
func unreachableCoder(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionCoderReachable)
	if !fails || c.Reason != coderv1alpha1.ReasonUnreachable {
		return nil
	}
	conclusions := one(f.finding(severityError, c, "Coder's API does not respond to the operator",
		"check that the Service routes to the pods, that NetworkPolicies allow the operator to reach them, and the log of Coder"),
		f.call("get_service_status"))
	// If no pod is ready, this is only a symptom.
	conclusions[0].symptom = len(f.current) > 0 && ready(f.current) == 0
	return conclusions
}

func refusedAccess(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionOperatorAccess)
	if !fails || f.coderComplains(c) {
		return nil
	}
	if _, listed := missingAccess[c.Reason]; !listed {
		return aSymptom(f.finding(severityError, c, "the operator has no access to Coder", "check whether Coder responds; the operator retries automatically"))
	}
	return byReason(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionFalse, missingAccess)(f)
}

// unserved reports that workspaces and templates are not served, unless missing access to
// Coder explains it.
func unserved(f *controlPlaneFacts) []conclusion {
	if _, fails := f.fails(coderv1alpha1.ConditionOperatorAccess); fails {
		return nil
	}
	return byReason(coderv1alpha1.ConditionServed, metav1.ConditionFalse, notServed)(f)
}

// notReady reports that the control plane is not ready, if no other error was found.
func notReady(f *controlPlaneFacts) []conclusion {
	c := f.condition(coderv1alpha1.ConditionReady)
	if c.Status == metav1.ConditionTrue || c.Status == "" || !f.object.DeletionTimestamp.IsZero() {
		return nil
	}
	severity, do := severityError, "see its conditions"
	if isTrue(f.object.Status.Conditions, coderv1alpha1.ConditionReconciling) {
		severity, do = severityWarning, "try again in some seconds: the operator is working on it"
	}
	return aFallback(f.finding(severity, c, "it is not ready", do), showEvents(f.object.Namespace, "CoderControlPlane", f.object.Name))
}

// advice is what a finding says about a condition. An empty one means that there is no
// finding.
type advice struct{ severity, what, do string }

// otherReasons is the key of the advice for the reasons that are not listed.
const otherReasons = ""

// byReason returns a rule about a condition of the control plane with this status. advices
// are by the reason of the condition.
func byReason(kind string, status metav1.ConditionStatus, advices map[string]advice) rule[*controlPlaneFacts] {
	return func(f *controlPlaneFacts) []conclusion {
		c := f.condition(kind)
		a, listed := advices[c.Reason]
		if !listed {
			a = advices[otherReasons]
		}
		if c.Status != status || a.what == "" {
			return nil
		}
		return one(f.finding(a.severity, c, a.what, a.do))
	}
}

// beside returns a warning about a condition that does not affect Ready.
func beside(what, do string) map[string]advice {
	return map[string]advice{
		coderv1alpha1.ReasonReconciling: {}, coderv1alpha1.ReasonDisabled: {}, coderv1alpha1.ReasonWaiting: {},
		otherReasons: {severityWarning, what, do},
	}
}

const (
	validLicense  = "put a valid license into the Secret of spec.licenseSecretRef"
	notExposed    = "Coder is not exposed as spec.expose requires"
	seeTheMessage = "see the message; the operator retries automatically"
)

// The advices about the conditions of a control plane.
var (
	unapplied = map[string]advice{
		coderv1alpha1.ReasonNotOwned:    {severityError, "an object with the required name belongs to another owner", "delete or rename that object, or give the control plane another name"},
		coderv1alpha1.ReasonInvalidName: {severityError, "the name of the control plane is not a valid Service name", "create it again with another name"},
		coderv1alpha1.ReasonInvalidSpec: {severityError, "the API server rejects an object created from the spec", "correct the field of the spec that the message names"},
		coderv1alpha1.ReasonKindMissing: {severityError, "the cluster does not serve a kind that the spec requires", "install the software that provides the kind, or remove that part of the spec"},
		otherReasons:                    {severityError, "an object that the spec requires cannot be applied", seeTheMessage},
	}

	// missingReferences is about Secrets, ConfigMaps and keys that the spec references and that
	// do not exist. The operator reports them, because this package reads no Secrets.
	missingReferences = map[string]advice{
		coderv1alpha1.ReasonDatabaseMissing:       {severityError, "the spec configures no database", "set spec.database, or CODER_PG_CONNECTION_URL from a Secret in spec.extraEnv"},
		coderv1alpha1.ReasonDatabaseSecretMissing: {severityError, "the Secret with the connection URL of the database, or its key, is missing", "create the Secret or the key, or correct spec.database"},
		coderv1alpha1.ReasonSecretMissing:         missingReference,
		coderv1alpha1.ReasonConfigMapMissing:      missingReference,
	}
	// lostReferences is about the same while pods run that started earlier.
	lostReferences = map[string]advice{
		coderv1alpha1.ReasonDatabaseSecretMissing: lostReference,
		coderv1alpha1.ReasonSecretMissing:         lostReference,
		coderv1alpha1.ReasonConfigMapMissing:      lostReference,
	}
	lostReference    = advice{severityWarning, "the pods run, but new pods cannot start", "create it again, or correct the field of the spec that refers to it"}
	missingReference = advice{severityError, "the pods refer to something that does not exist", "create it, or correct the field of the spec that refers to it"}

	missingAccess = map[string]advice{
		coderv1alpha1.ReasonWaiting:            {},
		coderv1alpha1.ReasonAdminJobRunning:    {},
		coderv1alpha1.ReasonReconciling:        {},
		coderv1alpha1.ReasonDisabled:           {severityInfo, "the operator's access to Coder is disabled, so its workspaces and templates are not served", "unset spec.operatorAccess.disabled if they should be"},
		coderv1alpha1.ReasonTokenRefused:       {severityError, "Coder rejects the operator's token", "put a token of a user with the role owner into the Secret of spec.operatorAccess.tokenSecretRef; the operator renews its own tokens automatically"},
		coderv1alpha1.ReasonTokenSecretMissing: {severityError, "the Secret with the operator's token, or its key, is missing", "create it, or correct spec.operatorAccess.tokenSecretRef"},
		coderv1alpha1.ReasonCredentialsRefused: {severityError, "Coder does not accept the operator's own account", "check whether its user was deleted, suspended or changed in Coder, or give a token in spec.operatorAccess.tokenSecretRef"},
		coderv1alpha1.ReasonAdminJobFailed:     {severityError, "the Job that creates the operator's account failed", "fix what the message reports, or give a token in spec.operatorAccess.tokenSecretRef"},
	}

	endingLicense = map[string]advice{
		coderv1alpha1.ReasonLicenseExpiring:      {severityWarning, "the license expires soon", validLicense},
		coderv1alpha1.ReasonLicenseInGracePeriod: {severityWarning, "the license has expired and is in its grace period", validLicense},
	}
	missingLicense = map[string]advice{
		coderv1alpha1.ReasonPending:        {},
		coderv1alpha1.ReasonLicenseExpired: {severityError, "the license has expired", validLicense},
		coderv1alpha1.ReasonSecretMissing:  {severityError, "the Secret with the license, or its key, is missing", "create it, or correct spec.licenseSecretRef"},
		coderv1alpha1.ReasonInvalidLicense: {severityError, "Coder does not accept the license", validLicense},
		coderv1alpha1.ReasonNotSupported:   unsupportedLicense,
		coderv1alpha1.ReasonDisabled:       unsupportedLicense,
		otherReasons:                       {severityError, "the license is not applied", seeTheMessage},
	}
	unsupportedLicense = advice{severityWarning, "the license cannot be applied", "use an image of Coder that supports licenses, or remove spec.licenseSecretRef"}

	missingExposure = map[string]advice{
		coderv1alpha1.ReasonReconciling:  {},
		coderv1alpha1.ReasonKindMissing:  {severityError, notExposed, "install the software that provides the kind, or use another option of spec.expose"},
		coderv1alpha1.ReasonRouteRefused: {severityError, notExposed, "configure the Gateway to accept routes of this namespace and host, or correct spec.expose"},
		coderv1alpha1.ReasonNotOwned:     {severityError, notExposed, "delete or rename the object of that name"},
		otherReasons:                     {severityError, notExposed, "correct spec.expose: class, host, and the Secret with the certificate"},
	}

	missingWorkspaceAccess = beside("Coder lacks permissions for workspaces in a namespace of spec.rbac",
		"create the missing namespace, or ask an administrator to allow the permissions of spec.rbac")
	missingMetrics = beside("the metrics are not exported", "see the message, or disable spec.metrics")
	sharedDatabase = beside("another control plane uses the same database", "give each control plane its own database, or delete one")
	notServed      = beside("its templates and workspaces are not served", "wait until the operator has access to Coder")
)
