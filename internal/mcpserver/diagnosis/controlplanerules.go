package diagnosis

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// controlPlaneRules returns the rules, ordered from causes to effects.
func controlPlaneRules() []rule[*controlPlaneFacts] {
	return []rule[*controlPlaneFacts]{
		deletion, neverSeen, unapplied, scaledToZero, missingReferences, refusedByCondition,
		unusableDatabaseOfCoder, podTroubles, podsByCondition, missingDeployment, unreachableCoder, refusedAccess, stuckRollout, notReady,
		license, exposure, workspaceAccess, metrics, unserved, unreadyProvisioners, failedVersions, behind,
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
		return nothing()
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

// neverSeen reports a control plane that the operator has not reconciled yet.
func neverSeen(f *controlPlaneFacts) []conclusion {
	if f.condition(coderv1alpha1.ConditionReady).Status != "" {
		return nothing()
	}
	return one(Finding{
		Severity: severityError, Where: f.where(), What: "the operator has not reconciled it yet",
		Evidence: "status has no condition Ready",
		Do:       "check that the operator (coder-k8s) runs and holds its lease, and that it watches this namespace (--watch-namespaces)",
	}, Next{Tool: "check_health", Arguments: map[string]any{}})
}

// behind reports a change of the spec that the operator has not reconciled yet.
func behind(f *controlPlaneFacts) []conclusion {
	seen := f.object.Status.ObservedGeneration
	if seen == f.object.Generation || f.condition(coderv1alpha1.ConditionReady).Status == "" {
		return nothing()
	}
	return one(Finding{
		Severity: severityWarning, Where: f.where(), What: "the operator has not reconciled the newest change of the spec yet",
		Evidence: fmt.Sprintf("metadata.generation is %d, status.observedGeneration %d", f.object.Generation, seen),
		Do:       "try again in some seconds; if it does not change, check that the operator runs",
	}, Next{Tool: "check_health", Arguments: map[string]any{}})
}

// unapplied reports objects that the operator could not apply.
func unapplied(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionResourcesApplied)
	if !fails {
		return nothing()
	}
	what, do := "an object that the spec requires cannot be applied", "see the message; the operator retries automatically"
	switch c.Reason {
	case coderv1alpha1.ReasonNotOwned:
		what, do = "an object with the required name belongs to another owner", "delete or rename that object, or give the control plane another name"
	case coderv1alpha1.ReasonInvalidName:
		what, do = "the name of the control plane is not a valid Service name", "create it again with another name"
	case coderv1alpha1.ReasonInvalidSpec:
		what, do = "the API server rejects an object created from the spec", "correct the field of the spec that the message names"
	case coderv1alpha1.ReasonKindMissing:
		what, do = "the cluster does not serve a kind that the spec requires", "install the software that provides the kind, or remove that part of the spec"
	}
	return one(f.finding(severityError, c, what, do))
}

func scaledToZero(f *controlPlaneFacts) []conclusion {
	ready, available := f.condition(coderv1alpha1.ConditionReady), f.condition(coderv1alpha1.ConditionDeploymentAvailable)
	asked := f.object.Spec.Replicas != nil && *f.object.Spec.Replicas == 0
	for _, c := range []metav1.Condition{available, ready} {
		if c.Reason == coderv1alpha1.ReasonScaledToZero {
			return one(f.finding(severityWarning, c, "Coder is scaled to 0, so it does not run", "set replicas to 1 or more to start it"), f.scale())
		}
	}
	if asked {
		return one(Finding{
			Severity: severityWarning, Where: f.where(), What: "Coder is scaled to 0, so it does not run: spec.replicas is 0",
			Do: "set replicas to 1 or more to start it",
		}, f.scale())
	}
	return nothing()
}

func (f *controlPlaneFacts) scale() Next {
	return Next{Tool: "change_control_plane", Arguments: map[string]any{"namespace": f.object.Namespace, "name": f.object.Name, "replicas": 1}}
}

// unreachableCoder reports a Coder API that does not respond to the operator.
func unreachableCoder(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionCoderReachable)
	if !fails || c.Reason != coderv1alpha1.ReasonUnreachable {
		return nothing()
	}
	conclusions := one(f.finding(severityError, c, "Coder's API does not respond to the operator",
		"check that the Service routes to the pods, that NetworkPolicies allow the operator to reach them, and the log of Coder"),
		Next{Tool: "get_service_status", Arguments: map[string]any{"namespace": f.object.Namespace, "name": f.object.Name}})
	// If no pod is ready, this is only a symptom.
	conclusions[0].symptom = len(f.current) > 0 && ready(f.current) == 0
	return conclusions
}

// refusedAccess reports that Coder denies access to the operator.
func refusedAccess(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionOperatorAccess)
	if !fails || f.coderComplains(c) {
		return nothing()
	}
	switch c.Reason {
	case coderv1alpha1.ReasonWaiting, coderv1alpha1.ReasonAdminJobRunning, coderv1alpha1.ReasonReconciling:
		return nothing()
	case coderv1alpha1.ReasonDisabled:
		return one(f.finding(severityInfo, c, "the operator's access to Coder is disabled, so its workspaces and templates are not served", "unset spec.operatorAccess.disabled if they should be"))
	case coderv1alpha1.ReasonTokenRefused:
		return one(f.finding(severityError, c, "Coder rejects the operator's token", "put a token of a user with the role owner into the Secret of spec.operatorAccess.tokenSecretRef; the operator renews its own tokens automatically"))
	case coderv1alpha1.ReasonTokenSecretMissing:
		return one(f.finding(severityError, c, "the Secret with the operator's token, or its key, is missing", "create it, or correct spec.operatorAccess.tokenSecretRef"))
	case coderv1alpha1.ReasonCredentialsRefused:
		return one(f.finding(severityError, c, "Coder does not accept the operator's own account", "check whether its user was deleted, suspended or changed in Coder, or give a token in spec.operatorAccess.tokenSecretRef"))
	case coderv1alpha1.ReasonAdminJobFailed:
		return one(f.finding(severityError, c, "the Job that creates the operator's account failed", "fix what the message reports, or give a token in spec.operatorAccess.tokenSecretRef"))
	}
	return aSymptom(f.finding(severityError, c, "the operator has no access to Coder", "check whether Coder responds; the operator retries automatically"))
}

func license(f *controlPlaneFacts) []conclusion {
	c := f.condition(coderv1alpha1.ConditionLicenseApplied)
	const do = "put a valid license into the Secret of spec.licenseSecretRef"
	switch {
	case c.Status == metav1.ConditionTrue && c.Reason == coderv1alpha1.ReasonLicenseExpiring:
		return one(f.finding(severityWarning, c, "the license expires soon", do))
	case c.Status == metav1.ConditionTrue && c.Reason == coderv1alpha1.ReasonLicenseInGracePeriod:
		return one(f.finding(severityWarning, c, "the license has expired and is in its grace period", do))
	case c.Status != metav1.ConditionFalse, c.Reason == coderv1alpha1.ReasonPending:
		return nothing()
	case c.Reason == coderv1alpha1.ReasonLicenseExpired:
		return one(f.finding(severityError, c, "the license has expired", do))
	case c.Reason == coderv1alpha1.ReasonSecretMissing:
		return one(f.finding(severityError, c, "the Secret with the license, or its key, is missing", "create it, or correct spec.licenseSecretRef"))
	case c.Reason == coderv1alpha1.ReasonInvalidLicense:
		return one(f.finding(severityError, c, "Coder does not accept the license", do))
	case c.Reason == coderv1alpha1.ReasonNotSupported, c.Reason == coderv1alpha1.ReasonDisabled:
		return one(f.finding(severityWarning, c, "the license cannot be applied", "use an image of Coder that supports licenses, or remove spec.licenseSecretRef"))
	}
	return one(f.finding(severityError, c, "the license is not applied", "see the message; the operator retries automatically"))
}

func exposure(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionExposed)
	if !fails || c.Reason == coderv1alpha1.ReasonReconciling {
		return nothing()
	}
	do := "correct spec.expose: class, host, and the Secret with the certificate"
	switch c.Reason {
	case coderv1alpha1.ReasonKindMissing:
		do = "install the software that provides the kind, or use another option of spec.expose"
	case coderv1alpha1.ReasonRouteRefused:
		do = "configure the Gateway to accept routes of this namespace and host, or correct spec.expose"
	case coderv1alpha1.ReasonNotOwned:
		do = "delete or rename the object of that name"
	}
	return one(f.finding(severityError, c, "Coder is not exposed as spec.expose requires", do))
}

func workspaceAccess(f *controlPlaneFacts) []conclusion {
	return beside(f, coderv1alpha1.ConditionWorkspaceAccess, "Coder lacks permissions for workspaces in a namespace of spec.rbac",
		"create the missing namespace, or ask an administrator to allow the permissions of spec.rbac")
}

func metrics(f *controlPlaneFacts) []conclusion {
	return beside(f, coderv1alpha1.ConditionMetricsExported, "the metrics are not exported", "see the message, or disable spec.metrics")
}

// unserved reports that workspaces and templates are not served, unless missing access to
// Coder explains it.
func unserved(f *controlPlaneFacts) []conclusion {
	if _, fails := f.fails(coderv1alpha1.ConditionOperatorAccess); fails {
		return nothing()
	}
	return beside(f, coderv1alpha1.ConditionServed, "its templates and workspaces are not served", "wait until the operator has access to Coder")
}

// beside returns a warning for a condition that does not affect Ready.
func beside(f *controlPlaneFacts, kind, what, do string) []conclusion {
	c, fails := f.fails(kind)
	if !fails || c.Reason == coderv1alpha1.ReasonReconciling || c.Reason == coderv1alpha1.ReasonDisabled || c.Reason == coderv1alpha1.ReasonWaiting {
		return nothing()
	}
	return one(f.finding(severityWarning, c, what, do))
}

// notReady reports that the control plane is not ready, if no other error was found.
func notReady(f *controlPlaneFacts) []conclusion {
	c := f.condition(coderv1alpha1.ConditionReady)
	if c.Status == metav1.ConditionTrue || c.Status == "" || !f.object.DeletionTimestamp.IsZero() {
		return nothing()
	}
	severity, do := severityError, "see its conditions"
	if isTrue(f.object.Status.Conditions, coderv1alpha1.ConditionReconciling) {
		severity, do = severityWarning, "try again in some seconds: the operator is working on it"
	}
	return aFallback(f.finding(severity, c, "it is not ready", do), showEvents(f.object.Namespace, "CoderControlPlane", f.object.Name))
}
