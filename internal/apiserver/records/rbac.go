package records

// Every replica reads the records of all namespaces, because one watch reports their
// order, and writes them.
//
//+kubebuilder:rbac:groups=internal.coder.com,resources=coderworkspacerecords;codertemplaterecords;codertemplatesources;coderuserrecords;codermirrorstates,verbs=get;list;watch;create;update;delete
