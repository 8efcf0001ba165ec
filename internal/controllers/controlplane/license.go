package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/coderd/licensing"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// defaultLicenseKey is the key of a license in a Secret where none is named.
const defaultLicenseKey = "license"

// license is what a pass saw of the license. The zero value is that of a pass that
// did not come to it.
type license struct {
	// missing is why the license that is asked for cannot be read.
	missing *workload.Problem
	// result is how the licenses in Coder stand, or nil where that is not known.
	result *licensing.Result
}

// ensureLicense makes the license in Coder what the spec asks for, and learns what
// the licenses allow. Coder is not asked for either in most passes.
func (r *Reconciler) ensureLicense(ctx context.Context, s *scope) error {
	text, err := r.readLicense(ctx, s)
	if err != nil {
		return err
	}
	result, err := r.licenses.Ensure(ctx, licensing.Request{
		Key:      client.ObjectKeyFromObject(s.cp).String(),
		Instance: s.coderInstance(),
		License:  text,
		Unread:   s.license.missing != nil,
		Own:      s.cp.Status.LicenseUUIDs,
		Record:   func(ctx context.Context, own []string) error { return r.recordLicenses(ctx, s, own) },
		Connect:  func(ctx context.Context) (licensing.Coder, error) { return r.operatorOf(ctx, s) },
	})
	for _, event := range result.Events {
		r.kit.Tell(&s.Pass, event.Type, event.Reason, event.Message)
	}
	if err != nil {
		return workload.Settled(err)
	}
	s.license.result = &result
	if result.AllowanceErr != nil {
		log.FromContext(ctx).Info("Coder does not say what its licenses allow", "error", result.AllowanceErr.Error())
	}
	if s.license.missing != nil {
		return &steps.Waiting{Reason: s.license.missing.Reason, Message: s.license.missing.Message, After: result.RequeueAfter}
	}
	if result.State == licensing.Waiting || result.State == licensing.Failed {
		return &steps.Waiting{Reason: result.Reason, Message: result.Message, After: result.RequeueAfter}
	}
	return nil
}

// readLicense reads the license that the spec asks for. A Secret that is not there
// is no error: the watch tells when it comes.
func (r *Reconciler) readLicense(ctx context.Context, s *scope) (string, error) {
	ref := s.cp.Spec.LicenseSecretRef
	if ref == nil {
		return "", nil
	}
	key := cmp.Or(ref.Key, defaultLicenseKey)
	secret := &corev1.Secret{}
	err := r.kit.Live.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		s.license.missing = &workload.Problem{Reason: coderv1alpha1.ReasonSecretMissing, Message: fmt.Sprintf(
			"Secret %q (spec.licenseSecretRef) does not exist; create it with the license in key %q, or remove licenseSecretRef", ref.Name, key)}
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading Secret %q with the license: %w", ref.Name, err)
	}
	text := strings.TrimSpace(string(secret.Data[key]))
	if text == "" {
		s.license.missing = &workload.Problem{Reason: coderv1alpha1.ReasonSecretMissing, Message: fmt.Sprintf(
			"Secret %q (spec.licenseSecretRef) has no license in key %q; add it, or name the key that holds it", ref.Name, key)}
	}
	return text, nil
}

// recordLicenses writes which licenses are the operator's, before one goes to
// Coder.
func (r *Reconciler) recordLicenses(ctx context.Context, s *scope, own []string) error {
	base := s.cp.DeepCopy()
	s.cp.Status.LicenseUUIDs = own
	if err := r.kit.Client.Status().Patch(ctx, s.cp, workload.LockedPatch(base)); err != nil {
		s.cp.Status.LicenseUUIDs = base.Status.LicenseUUIDs
		return fmt.Errorf("writing status.licenseUUIDs: %w", err)
	}
	return nil
}

// operatorOf connects to Coder with the operator's token.
func (r *Reconciler) operatorOf(ctx context.Context, s *scope) (licensing.Coder, error) {
	ref := s.access.TokenRef
	secret := &corev1.Secret{}
	if err := r.kit.Live.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: ref.Name}, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %q with the operator's token: %w", ref.Name, err)
	}
	return r.operator(coderd.Config{
		URL: s.url(), Token: strings.TrimSpace(string(secret.Data[cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)])),
		Observe: r.kit.Metrics.Observe, OnUnauthorized: func() { r.Refused(client.ObjectKeyFromObject(s.cp)) },
	})
}

// coderInstance changes where other pods of Coder may answer than before. While
// they are being replaced, the old ones do.
func (s *scope) coderInstance() string {
	return fmt.Sprintf("%s %s %s %d %t %s %s", s.cp.UID, s.url(), s.Deployment.UID, s.Deployment.Generation, s.Available(),
		s.build.Version, s.build.DeploymentID)
}

func (s *scope) licenseAsked() bool { return s.cp.Spec.LicenseSecretRef != nil }

// setLicense writes what is known of the licenses. That Coder was not asked, or
// gave no answer, says nothing against what it said before.
func setLicense(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) {
	if s.accessDisabled() {
		// Nobody looks any more.
		status.LicenseTier, status.HighAvailabilityEntitlement = "", ""
		status.ExternalProvisionerDaemonsEntitlement, status.WorkspaceProxyEntitlement = "", ""
	}
	if result := s.license.result; result != nil {
		status.LicenseUUIDs = slices.Clone(result.Own)
		if s.license.missing == nil {
			status.LicenseExpiresAt = storedTime(result.ExpiresAt)
		}
		if result.AppliedAt != nil {
			status.LicenseLastApplied, status.LicenseLastAppliedHash = storedTime(result.AppliedAt), result.Hash
		}
		if allowance := result.Allowance; allowance != nil {
			status.LicenseTier = allowance.Tier
			status.ExternalProvisionerDaemonsEntitlement = allowance.ExternalProvisioners
			status.WorkspaceProxyEntitlement = allowance.WorkspaceProxy
			status.HighAvailabilityEntitlement = allowance.HighAvailability
		}
	}
	if !s.licenseAsked() && len(status.LicenseUUIDs) == 0 {
		status.LicenseExpiresAt, status.LicenseLastApplied, status.LicenseLastAppliedHash = nil, nil, ""
	}
}

// storedTime is a time as the API server stores it, without parts of a second.
func storedTime(t *time.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	stored := metav1.NewTime(*t).Rfc3339Copy()
	return &stored
}

// licenseApplied is nil where no license is asked for and none of the operator's
// own is left in Coder.
func licenseApplied(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) *metav1.Condition {
	if !s.licenseAsked() && len(status.LicenseUUIDs) == 0 {
		return nil
	}
	c := conditions.False(coderv1alpha1.ConditionLicenseApplied, coderv1alpha1.ReasonPending, "waits until the operator has access to Coder")
	result := s.license.result
	switch {
	case s.accessDisabled():
		c.Reason = coderv1alpha1.ReasonDisabled
		c.Message = "spec.operatorAccess.disabled keeps the operator away from Coder, so that it neither adds nor removes a license; " +
			"remove it, or remove spec.licenseSecretRef and look after the licenses in Coder"
	case s.license.missing != nil:
		c.Reason, c.Message = s.license.missing.Reason, s.license.missing.Message
	case result == nil && s.access != nil && s.access.State == access.Ready:
		c.Message = "the license is not looked at yet"
	case result == nil:
	case result.State == licensing.Ready:
		c = conditions.True(coderv1alpha1.ConditionLicenseApplied, result.Reason, workload.Redact(result.Message))
	default:
		c.Reason, c.Message = result.Reason, workload.Redact(result.Message)
	}
	return &c
}

// highAvailabilityEntitled is nil where no more than one replica is asked for.
func highAvailabilityEntitled(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) *metav1.Condition {
	const kind = coderv1alpha1.ConditionHighAvailabilityEntitled
	wanted := s.Wanted()
	if wanted <= 1 {
		return nil
	}
	var c metav1.Condition
	switch coderd.Entitlement(status.HighAvailabilityEntitlement) {
	case coderd.Entitled:
		c = conditions.True(kind, coderv1alpha1.ReasonEntitled, fmt.Sprintf("the licenses of Coder allow %d replicas", wanted))
	case coderd.GracePeriod:
		c = conditions.True(kind, coderv1alpha1.ReasonLicenseInGracePeriod, fmt.Sprintf(
			"%d replicas run in the grace period of a license that has ended; add another license (spec.licenseSecretRef), or set spec.replicas to 1", wanted))
	case coderd.NotEntitled:
		c = conditions.False(kind, coderv1alpha1.ReasonNotEntitled, fmt.Sprintf(
			"%d replicas are asked for, and this Coder has no license with the feature %s: users may not reach their workspaces; "+
				"add such a license (spec.licenseSecretRef), or set spec.replicas to 1", wanted, coderd.FeatureHighAvailability))
	default:
		c = conditions.Unknown(kind, coderv1alpha1.ReasonNotChecked, "Coder has not said what its licenses allow")
	}
	return &c
}

// besideLicense are the conditions about the license that do not decide about
// Ready: where none is asked for, and where this Coder takes none. The latter
// works as well as it ever can, and neither time nor a retry gives it more; the
// condition says so.
func besideLicense(s *scope) []string {
	result := s.license.result
	if !s.licenseAsked() || result != nil && result.Reason == coderv1alpha1.ReasonNotSupported {
		return []string{coderv1alpha1.ConditionLicenseApplied}
	}
	return nil
}

// licenseStalled says that only a person can help.
func licenseStalled(s *scope) bool {
	if s.accessDisabled() {
		return true
	}
	return s.license.missing == nil && s.license.result != nil && s.license.result.State == licensing.Failed
}
