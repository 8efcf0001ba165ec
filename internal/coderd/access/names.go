package access

import (
	"fmt"
	"hash/fnv"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// The operator's account in Coder.
const (
	// Username is the name of the account in a Coder whose first user it is.
	// Where a Job makes it, a dash and eight random digits follow.
	Username = "coder-k8s-operator"
	// EmailDomain cannot receive mail: .invalid is reserved for that.
	EmailDomain = "coder-k8s.invalid"
)

// What the container of Request.AdminJob reads: the first three from the keys
// username, email and password of the credentials Secret, the last one as
// coderd itself does.
const (
	EnvUsername    = "CODER_USERNAME"
	EnvEmail       = "CODER_EMAIL"
	EnvPassword    = "CODER_PASSWORD"
	EnvPostgresURL = "CODER_PG_CONNECTION_URL"
)

// Annotations on the token Secret. None of them is a secret.
const (
	// AnnotationTokenID is the id of the token in Coder.
	AnnotationTokenID = "coder.com/token-id"
	// AnnotationTokenName is its name in Coder.
	AnnotationTokenName = "coder.com/token-name"
	// AnnotationTokenUser is the account that it belongs to.
	AnnotationTokenUser = "coder.com/token-user"
	// AnnotationTokenIssuedAt and AnnotationTokenExpiresAt are in RFC 3339.
	AnnotationTokenIssuedAt  = "coder.com/token-issued-at"
	AnnotationTokenExpiresAt = "coder.com/token-expires-at"
	// AnnotationPreviousTokenID is the token that was replaced and is not deleted
	// in Coder yet.
	AnnotationPreviousTokenID = "coder.com/previous-token-id"
)

// Annotations on the credentials Secret, and on the Job.
const (
	// AnnotationBootstrap is how the account is made: BootstrapFirstUser or
	// BootstrapAdminJob.
	AnnotationBootstrap = "coder.com/bootstrap"
	// AnnotationAccountID is the account's id in Coder. It is there once Coder
	// has accepted the credentials.
	AnnotationAccountID = "coder.com/account-id"
	// AnnotationInitialAdmin says that the question of the initial admin is
	// settled, and how: InitialAdminCreated or InitialAdminExists.
	AnnotationInitialAdmin = "coder.com/initial-admin"
	// AnnotationFailedJob is the uid of the last Job that failed,
	// AnnotationJobFailures how many did, AnnotationJobRetryAt when the next one
	// starts, in RFC 3339.
	AnnotationFailedJob   = "coder.com/admin-job-failed"
	AnnotationJobFailures = "coder.com/admin-job-failures"
	AnnotationJobRetryAt  = "coder.com/admin-job-retry-at"
	// AnnotationGeneration is the generation of the control plane from which a
	// Job was made. A Job of an older one is replaced at once.
	AnnotationGeneration = "coder.com/control-plane-generation"
)

// Values of AnnotationBootstrap and AnnotationInitialAdmin.
const (
	BootstrapFirstUser  = "first-user"
	BootstrapAdminJob   = "admin-job"
	InitialAdminCreated = "created"
	InitialAdminExists  = "exists"
)

// TokenSecretName is the Secret in which the operator keeps the token that it
// made.
func TokenSecretName(cp *coderv1alpha1.CoderControlPlane) string {
	if name := cp.Spec.OperatorAccess.GeneratedTokenSecretName; name != "" {
		return name
	}
	return coderv1alpha1.SuffixedName(cp.Name, "-operator-token")
}

// CredentialsSecretName is the Secret with the operator's own account.
func CredentialsSecretName(cp *coderv1alpha1.CoderControlPlane) string {
	return coderv1alpha1.SuffixedName(cp.Name, "-operator-credentials")
}

// InitialAdminSecretName is the Secret with the account of a person.
func InitialAdminSecretName(cp *coderv1alpha1.CoderControlPlane) string {
	return coderv1alpha1.InitialAdminSecretName(cp.Name)
}

// TokenName is the name of the operator's token in Coder. While a token is being
// replaced, the new one has the other of the two names.
func TokenName(cp *coderv1alpha1.CoderControlPlane) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cp.Namespace + "\x00" + cp.Name))
	return fmt.Sprintf("%s-%016x", Username, h.Sum64())
}

func otherTokenName(cp *coderv1alpha1.CoderControlPlane) string { return TokenName(cp) + "-2" }

// suffixFrom makes eight digits of any random text, without repeating it.
func suffixFrom(random string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(random))
	return fmt.Sprintf("%08x", h.Sum32())
}
