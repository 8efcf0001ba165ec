package mcpserver

// What the server needs besides ClusterRole system:auth-delegator, which allows
// the reviews of tokens and of access.
//
// Acting as the caller, in the form of Kubernetes 1.36 and later, where the
// right to act as somebody is limited to the resources of the tools and never
// reaches system:masters.
//
//+kubebuilder:rbac:groups=authentication.k8s.io,resources=users;groups,verbs="impersonate:user-info"
//+kubebuilder:rbac:groups=authentication.k8s.io,resources=serviceaccounts,verbs="impersonate:serviceaccount"
//+kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs="impersonate-on:user-info:list";"impersonate-on:serviceaccount:list"
//+kubebuilder:rbac:groups=aggregation.coder.com,resources=coderworkspaces,verbs="impersonate-on:user-info:get";"impersonate-on:user-info:list";"impersonate-on:user-info:update";"impersonate-on:serviceaccount:get";"impersonate-on:serviceaccount:list";"impersonate-on:serviceaccount:update"
//
// Clusters before 1.36 know only the verb impersonate, which reaches everybody,
// system:masters too. Who wants the server there binds it by hand, with
// config/legacy-impersonation.
