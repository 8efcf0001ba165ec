package metadata

// Every replica watches the records, and the one that writes keeps them.
//
//+kubebuilder:rbac:groups=internal.coder.com,resources=coderobjectmetadata,verbs=get;list;watch;create;update;delete
