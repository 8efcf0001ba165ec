package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// unreadyProvisioners reports provisioners that are not ready. It reports none if the
// control plane is not ready, which explains them.
func unreadyProvisioners(f *controlPlaneFacts) []conclusion {
	var all []conclusion
	if !isTrue(f.object.Status.Conditions, coderv1alpha1.ConditionReady) {
		return all
	}
	for i := range f.provisioners {
		if c := unreadyProvisioner(&f.provisioners[i]); c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// unreadyProvisioner returns a conclusion if the provisioner does not take builds, and nil
// otherwise.
func unreadyProvisioner(p *coderv1alpha1.CoderProvisioner) *conclusion {
	c := findCondition(p.Status.Conditions, coderv1alpha1.ConditionReady)
	if c.Status == metav1.ConditionTrue && c.Reason != coderv1alpha1.ReasonScaledToZero {
		return nil
	}
	return &conclusion{Finding: Finding{
		Severity: severityWarning, Where: "CoderProvisioner/" + p.Name,
		What:     "it accepts no builds: " + cmp.Or(oneLine(c.Message, longestSentence), "the operator has not reconciled it yet"),
		Evidence: proof(c), Do: "fix it if templates need its tags",
	}, next: []Next{{Tool: "list_provisioners", Arguments: map[string]any{"namespace": p.Namespace}}}}
}

// waitingBuild reports a build that waits for a provisioner.
func waitingBuild(f *workspaceFacts) []conclusion {
	b := f.build()
	if b.Status != buildPending {
		return nothing()
	}
	severity, why, do := f.whoTakesBuilds()
	found := Finding{
		Severity: severity, Where: fmt.Sprintf("%s, build %d", f.where(), b.Number), Do: do,
		What:     fmt.Sprintf("the %s build has been waiting for a provisioner since %s: %s", b.Transition, since(b.CreatedAt), why),
		Evidence: evidence(f.describeProvisioners()),
	}
	return one(found, Next{Tool: "list_provisioners", Arguments: map[string]any{"namespace": f.object.Namespace}}, f.callControlPlane())
}

func since(t *metav1.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}

// whoTakesBuilds returns why no provisioner takes the build. The severity is lower if that
// is uncertain.
func (f *workspaceFacts) whoTakesBuilds() (severity, why, do string) {
	tags := f.tags()
	fitting := slices.DeleteFunc(slices.Clone(f.provisioners), func(p coderv1alpha1.CoderProvisioner) bool { return !mayTake(&p, tags) })
	ready := slices.ContainsFunc(fitting, func(p coderv1alpha1.CoderProvisioner) bool { return unreadyProvisioner(&p) == nil })
	switch {
	case ready:
		return severityWarning, "a provisioner with its tags is ready, but may be busy", "wait, or increase the replicas of the CoderProvisioner"
	case len(fitting) > 0:
		return severityError, "the provisioners with its tags are not ready", "fix the CoderProvisioner: see its conditions"
	case len(tags) > 0:
		return severityError, "no CoderProvisioner in this namespace has the tags " + describeTags(tags), "create a CoderProvisioner with these tags, or correct spec.provisionerTags of the template"
	default:
		return severityWarning, "the built-in provisioners of Coder build it when they are free", "wait; check that the control plane is healthy, and that its built-in provisioners are not disabled (CODER_PROVISIONER_DAEMONS)"
	}
}

// tags returns the tags that a provisioner needs to build the workspace, without the tags
// that all provisioners have.
func (f *workspaceFacts) tags() map[string]string {
	tags := map[string]string{}
	if f.template == nil {
		return tags
	}
	for key, value := range f.template.Spec.ProvisionerTags {
		if key != "scope" && key != "owner" {
			tags[key] = value
		}
	}
	return tags
}

// mayTake reports whether a provisioner may take a build with these tags. The tags of a key
// that the operator did not create are unknown, so the result is true for such keys. A
// provisioner with tags takes no builds without tags.
func mayTake(p *coderv1alpha1.CoderProvisioner, tags map[string]string) bool {
	if p.Spec.Key.SecretRef != nil {
		return true
	}
	if len(tags) == 0 {
		return len(p.Spec.Tags) == 0
	}
	for key, value := range tags {
		if p.Spec.Tags[key] != value {
			return false
		}
	}
	return true
}

func (f *workspaceFacts) describeProvisioners() string {
	if len(f.provisioners) == 0 {
		return "there is no CoderProvisioner of this control plane in the namespace"
	}
	var all []string
	for i := range f.provisioners {
		p := &f.provisioners[i]
		c := findCondition(p.Status.Conditions, coderv1alpha1.ConditionReady)
		all = append(all, fmt.Sprintf("CoderProvisioner %s, tags %s: Ready=%s %s: %s", p.Name, describeTags(p.Spec.Tags), c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "\n")
}

func describeTags(tags map[string]string) string {
	var all []string
	for key, value := range tags {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ", ") + "}"
}
