package v1alpha1

// Labels of every object that a control plane owns. They are part of the selectors of Deployments
// and Services, which cannot change after creation, so their values are part of the API.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// ControlPlaneName is the value of LabelName on a control plane's objects.
	ControlPlaneName = "coder-control-plane"
	// ManagedBy is the value of LabelManagedBy on everything that the operator creates.
	ManagedBy = "coder-k8s"

	// LabelControlPlane and LabelControlPlaneNamespace identify the owner of an object in another
	// namespace, where an owner reference is not possible.
	LabelControlPlane          = "coder.com/control-plane"
	LabelControlPlaneNamespace = "coder.com/control-plane-namespace"

	// AnnotationAllowVersion on a CoderControlPlane allows an image that the condition VersionAllowed
	// refuses. Its value is the version, the tag or the digest of the image, so that it allows no
	// other one.
	AnnotationAllowVersion = "coder.com/allow-version"

	// AnnotationOwnerUID is the UID of the control plane for which a Role or RoleBinding in another
	// namespace was created.
	AnnotationOwnerUID = "coder.com/workspace-rbac-owner-uid"

	// FinalizerCleanup blocks the deletion of a control plane until its RBAC objects in other
	// namespaces are deleted and its token in Coder is revoked. The key is that of the public
	// predecessor, so that a control plane can be migrated.
	FinalizerCleanup = "coder.com/workspace-rbac-cleanup"
)

// OperatorUsername is the name of the operator's account in Coder if it is Coder's first user. If a Job creates the account,
// a dash and eight random hexadecimal digits follow.
const OperatorUsername = "coder-k8s-operator"

// Keys of the Secrets that the operator writes.
const (
	// SecretKeyToken holds the operator's API token in <name>-operator-token.
	SecretKeyToken = "token"
	// SecretKeyUsername, SecretKeyEmail and SecretKeyPassword are the keys of
	// <name>-initial-admin and <name>-operator-credentials.
	SecretKeyUsername = "username"
	SecretKeyEmail    = "email"
	SecretKeyPassword = "password"
)
