package records

// Every replica writes the records of all namespaces, and reads them with one watch, which
// determines their order.
//
//+kubebuilder:rbac:groups=internal.coder.com,resources=coderworkspacerecords;codertemplaterecords;codertemplatesources;coderuserrecords;codermirrorstates,verbs=get;list;watch;create;update;delete
