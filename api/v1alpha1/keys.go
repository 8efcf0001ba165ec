package v1alpha1

// Labels on every object that a control plane owns. They are selectors of
// Deployments and Services, which cannot change after creation, so their
// values are part of the API.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// ControlPlaneName is the value of LabelName on a control plane's objects.
	ControlPlaneName = "coder-control-plane"
	// ManagedBy is the value of LabelManagedBy on everything the operator makes.
	ManagedBy = "coder-k8s"

	// LabelControlPlane and LabelControlPlaneNamespace name the owner of an
	// object that lives in another namespace, where an owner reference cannot.
	LabelControlPlane          = "coder.com/control-plane"
	LabelControlPlaneNamespace = "coder.com/control-plane-namespace"

	// AnnotationOwnerUID says which incarnation of the control plane made a
	// Role or RoleBinding in another namespace.
	AnnotationOwnerUID = "coder.com/workspace-rbac-owner-uid"

	// FinalizerCleanup holds a control plane back until its RBAC in other
	// namespaces is gone and its token in Coder is revoked. The key is that of
	// the public predecessor, so that a control plane can move over.
	FinalizerCleanup = "coder.com/workspace-rbac-cleanup"
)

// Keys in Secrets that the operator writes.
const (
	// SecretKeyToken holds the operator's API token in <name>-operator-token.
	SecretKeyToken = "token"
	// SecretKeyUsername, SecretKeyEmail and SecretKeyPassword are the keys of
	// <name>-initial-admin and <name>-operator-credentials.
	SecretKeyUsername = "username"
	SecretKeyEmail    = "email"
	SecretKeyPassword = "password"
)
