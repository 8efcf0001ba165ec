package connections

// Permissions of a component that uses Dynamic: it watches the control planes, and reads the Secret
// that each of them names in its status. RBAC cannot express "the Secret that another object
// names", so the permission is to get any Secret by name.
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
