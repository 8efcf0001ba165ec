package connections

// What a component that uses Dynamic needs: to know the control planes, and to
// read the Secret that each of them names in its status. RBAC cannot express
// "the Secret that another object names", so the right is to get any by name.
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
