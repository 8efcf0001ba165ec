package access

import (
	"cmp"
	"fmt"
	"hash/fnv"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// EmailDomain is the domain of the operator's account in Coder (coderv1alpha1.OperatorUsername). It cannot receive mail:
// the top-level domain .invalid is reserved (RFC 2606).
const EmailDomain = "coder-k8s.invalid"

// Annotations on the token Secret. None of them is a secret.
const (
	// AnnotationTokenID is the id of the token in Coder.
	AnnotationTokenID = "coder.com/token-id"
	// AnnotationTokenName is the name of the token in Coder.
	AnnotationTokenName = "coder.com/token-name"
	// AnnotationTokenUser is the name of the account that owns the token.
	AnnotationTokenUser = "coder.com/token-user"
	// AnnotationTokenIssuedAt and AnnotationTokenExpiresAt are times in RFC 3339 format.
	AnnotationTokenIssuedAt  = "coder.com/token-issued-at"
	AnnotationTokenExpiresAt = "coder.com/token-expires-at"
	// AnnotationPreviousTokenID is the id of the replaced token while it is not deleted in Coder
	// yet.
	AnnotationPreviousTokenID = "coder.com/previous-token-id"
)

// Annotations on the credentials Secret, and on the Job.
const (
	// AnnotationBootstrap is how the account is created: BootstrapFirstUser or BootstrapAdminJob.
	AnnotationBootstrap = "coder.com/bootstrap"
	// AnnotationAccountID is the account's id in Coder. It is set once Coder has accepted the
	// credentials.
	AnnotationAccountID = "coder.com/account-id"
	// AnnotationInitialAdmin records that the step for the initial admin is done, and its result:
	// InitialAdminCreated or InitialAdminExists.
	AnnotationInitialAdmin = "coder.com/initial-admin"
	// AnnotationFailedJob is the UID of the last Job that failed, AnnotationJobFailures the number
	// of failed Jobs, and AnnotationJobRetryAt the time at which the next one starts, in RFC 3339
	// format.
	AnnotationFailedJob   = "coder.com/admin-job-failed"
	AnnotationJobFailures = "coder.com/admin-job-failures"
	AnnotationJobRetryAt  = "coder.com/admin-job-retry-at"
	// AnnotationGeneration is the generation of the control plane from which a Job was created. A
	// Job of an older generation is replaced at once.
	AnnotationGeneration = "coder.com/control-plane-generation"
)

// Values of AnnotationBootstrap and AnnotationInitialAdmin.
const (
	BootstrapFirstUser  = "first-user"
	BootstrapAdminJob   = "admin-job"
	InitialAdminCreated = "created"
	InitialAdminExists  = "exists"
)

// TokenSecretName returns the name of the Secret in which the operator stores the token that it
// created.
func TokenSecretName(cp *coderv1alpha1.CoderControlPlane) string {
	return cmp.Or(cp.Spec.OperatorAccess.GeneratedTokenSecretName, coderv1alpha1.SuffixedName(cp.Name, "-operator-token"))
}

// CredentialsSecretName returns the name of the Secret with the operator's own account.
func CredentialsSecretName(cp *coderv1alpha1.CoderControlPlane) string {
	return coderv1alpha1.SuffixedName(cp.Name, "-operator-credentials")
}

// TokenName returns the name of the operator's token in Coder. During a rotation the new token gets
// the other one of the two names.
func TokenName(cp *coderv1alpha1.CoderControlPlane) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cp.Namespace + "\x00" + cp.Name))
	return fmt.Sprintf("%s-%016x", coderv1alpha1.OperatorUsername, h.Sum64())
}

func otherTokenName(cp *coderv1alpha1.CoderControlPlane) string { return TokenName(cp) + "-2" }
