package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// refusedByCondition reports pods that the API server rejects according to the Deployment's
// conditions, if there is no Event about it.
func refusedByCondition(f *controlPlaneFacts) []conclusion {
	if len(refusedPods(f.podFacts)) > 0 || f.deployment == nil {
		return nil
	}
	found := podproblem.FindRefused(f.deployment)
	if found == nil {
		return nil
	}
	return one(Finding{
		Severity: severityError, Where: "Deployment/" + f.deployment.Name,
		What:     found.Sentence(func(message string) string { return oneLine(message, longestSentence) }),
		Evidence: evidence("condition ReplicaFailure, " + found.Reason + ": " + found.Message), Do: refusalRemedy(found.Message, f.remedy),
	}, showEvents(f.object.Namespace, "ReplicaSet", ""))
}

// unusableDatabaseOfCoder reports a database that Coder cannot use. It checks the last log
// lines of coderd and the operator's conditions. If Coder runs but does not respond, or
// reports a failed connection of its own, it also checks the logs of running containers.
func unusableDatabaseOfCoder(f *controlPlaneFacts) []conclusion {
	const do = " (CODER_PG_CONNECTION_URL, spec.database)"
	speaking := inTrouble(f.current)
	access, _ := f.fails(coderv1alpha1.ConditionOperatorAccess)
	if _, silent := f.fails(coderv1alpha1.ConditionCoderReachable); silent || f.coderComplains(access) {
		speaking = append(speaking, running(f.current)...)
	}
	for _, s := range speaking {
		for _, source := range f.wordsOf(s) {
			if found := podproblem.FindDatabase(source.words); found != nil {
				return one(Finding{
					Severity: severityError, Where: whereContainer(s), What: "Coder cannot use its database: " + found.What,
					Evidence: evidence(found.Line), Do: found.Do + do,
				}, showLog(s, source.previous))
			}
		}
	}
	for _, c := range []metav1.Condition{
		f.condition(coderv1alpha1.ConditionDeploymentAvailable), f.condition(coderv1alpha1.ConditionOperatorAccess),
	} {
		if c.Status != metav1.ConditionFalse || c.Reason != coderv1alpha1.ReasonDatabaseUnreachable && !f.coderComplains(c) {
			continue
		}
		what, remedy := podproblem.DescribeDatabase(c.Message)
		return one(Finding{
			Severity: severityError, Where: f.where(), What: "Coder cannot use its database: " + cmp.Or(what, oneLine(c.Message, longestSentence)),
			Evidence: proof(c), Do: cmp.Or(remedy, podproblem.SeeDatabase) + do,
		})
	}
	return nil
}

// coderComplains reports whether Coder responds but reports a failed connection of its own.
// For that request, Coder connects only to its database.
func (f *controlPlaneFacts) coderComplains(c metav1.Condition) bool {
	return c.Type == coderv1alpha1.ConditionOperatorAccess && c.Reason == coderv1alpha1.ReasonUnreachable &&
		isTrue(f.object.Status.Conditions, coderv1alpha1.ConditionCoderReachable) &&
		(strings.Contains(c.Message, "dial tcp") || strings.Contains(c.Message, "pq: "))
}

// words is text from a container. previous reports that it is from before the last restart.
type words struct {
	words    string
	previous bool
}

// wordsOf returns the texts of a container, the newest first.
func (f *controlPlaneFacts) wordsOf(s suspect) []words {
	return []words{{f.logOf(s, false), false}, {f.lastOutput(s), true}, {f.logOf(s, true), true}}
}

// podTroubles reports the problems that any pod may have.
func podTroubles(f *controlPlaneFacts) []conclusion { return apply(f.podFacts, podRules()) }

// podsByCondition reports the operator's findings about the pods if the caller cannot read
// the pods or they no longer exist.
func podsByCondition(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionDeploymentAvailable)
	if !fails || len(podTroubles(f)) > 0 || len(refusedByCondition(f)) > 0 {
		return nil
	}
	what, do := "", ""
	switch c.Reason {
	case coderv1alpha1.ReasonCrashLooping:
		what, do = "Coder exits repeatedly", "fix what its last log line reports, in "+f.remedy.process
	case coderv1alpha1.ReasonImagePullFailed:
		what, do = "the image cannot be pulled", "correct spec.image, or give spec.imagePullSecrets"
	case coderv1alpha1.ReasonContainerConfigInvalid:
		what, do = "the container cannot be created", "correct "+f.remedy.references
	case coderv1alpha1.ReasonUnschedulable:
		what, do = "no node accepts the pod", schedulingRemedy(c.Message, f.remedy)
	case coderv1alpha1.ReasonPodsRefused:
		what, do = "the pods are rejected", refusalRemedy(c.Message, f.remedy)
	default:
		return nil
	}
	return one(f.finding(severityError, c, what, do))
}

func missingDeployment(f *controlPlaneFacts) []conclusion {
	if !f.deploymentMissing || !f.object.DeletionTimestamp.IsZero() || f.condition(coderv1alpha1.ConditionReady).Status == "" {
		return nil
	}
	return aSymptom(Finding{
		Severity: severityError, Where: "Deployment/" + f.object.Name, What: "the Deployment does not exist",
		Do: "the operator creates it when the objects that the spec refers to exist: see the other findings, and check that the operator runs",
	}, checkHealth())
}

// stuckRollout reports a rollout that does not progress, and pods of earlier revisions that
// remain.
func stuckRollout(f *controlPlaneFacts) []conclusion {
	c, fails := f.fails(coderv1alpha1.ConditionDeploymentAvailable)
	expired := f.deployment != nil && slices.ContainsFunc(f.deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Reason == coderv1alpha1.ReasonProgressDeadlineExceeded
	})
	if expired = expired || fails && c.Reason == coderv1alpha1.ReasonProgressDeadlineExceeded; !expired && len(f.earlier) == 0 {
		return nil
	}
	severity, what := severityWarning, "a rollout is in progress"
	if expired {
		severity, what = severityError, "the rollout did not complete before its deadline"
	}
	what += fmt.Sprintf(": %d of %d pods of the newest revision are ready", ready(f.current), wanted(f))
	if n := ready(f.earlier); n > 0 {
		what += fmt.Sprintf(", and %d of the earlier one still serve requests", n)
	}
	return aSymptom(Finding{
		Severity: severity, Where: "Deployment/" + f.object.Name, What: what, Evidence: proof(c),
		Do: "fix why the new pods are not ready, or revert the spec",
	}, f.call("get_control_plane_deployment_status"))
}

func ready(all []corev1.Pod) int {
	n := 0
	for i := range all {
		n += rank(podproblem.IsReady(&all[i]))
	}
	return n
}

func wanted(f *controlPlaneFacts) int32 {
	if f.deployment != nil {
		return ptr.Deref(f.deployment.Spec.Replicas, 1)
	}
	return ptr.Deref(f.object.Spec.Replicas, 1)
}
