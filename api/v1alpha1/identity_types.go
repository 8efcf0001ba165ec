package v1alpha1

// IdentitySpec says as whom callers of the aggregated API act in this Coder.
type IdentitySpec struct {
	// Rules map Kubernetes users to Coder users. The first rule that matches a caller
	// decides. Equal names are never taken for the same person. A caller that no rule
	// matches is unmapped: changes are then made with the operator's account, and need
	// the verb impersonate on coderusers of the group aggregation.coder.com.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Rules []IdentityRule `json:"rules,omitempty"`
}

// IdentityRule maps the Kubernetes users that it matches.
//
// +kubebuilder:validation:XValidation:rule="[has(self.coderUser), has(self.operator) && self.operator, has(self.nobody) && self.nobody].filter(x, x).size() == 1",message="a rule maps to a coderUser, to the operator or to nobody; give exactly one"
// +kubebuilder:validation:XValidation:rule="!has(self.coderUser) || !((has(self.coderUser.username) && self.coderUser.username.contains('{match}')) || (has(self.coderUser.email) && self.coderUser.email.contains('{match}'))) || (has(self.match.userName) && self.match.userName.contains('*')) || (has(self.match.extra) && has(self.match.extra.value) && self.match.extra.value.contains('*')) || (has(self.match.serviceAccount) && self.match.serviceAccount.name.contains('*'))",message="{match} is the text that * stands for, so match.userName, match.extra.value or match.serviceAccount.name must have a *"
// +kubebuilder:validation:XValidation:rule="!has(self.coderUser) || !((has(self.coderUser.username) && self.coderUser.username.contains('{extra}')) || (has(self.coderUser.email) && self.coderUser.email.contains('{extra}'))) || has(self.match.extra)",message="{extra} is the value that match.extra found, so the rule must have match.extra"
type IdentityRule struct {
	// Match says which callers the rule is for.
	Match IdentityMatch `json:"match"`
	// CoderUser is the Coder user as whom they act.
	// +optional
	CoderUser *CoderUserReference `json:"coderUser,omitempty"`
	// Operator lets them act with the operator's account, which is an Owner: Coder
	// refuses it nothing, and its audit log names the operator.
	// +optional
	Operator bool `json:"operator,omitempty"`
	// Nobody refuses them all changes and sessions in this Coder, whatever roles they
	// have in Kubernetes.
	// +optional
	Nobody bool `json:"nobody,omitempty"`
}

// IdentityMatch matches Kubernetes users in one way.
//
// +kubebuilder:validation:XValidation:rule="[has(self.userName), has(self.group), has(self.extra), has(self.serviceAccount)].filter(x, x).size() == 1",message="a match is a userName, a group, an extra or a serviceAccount; give exactly one"
type IdentityMatch struct {
	// UserName is the name of a user. It may have one *, which stands for one or more
	// characters, for example oidc:*@example.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.split('*').size() <= 2",message="must have at most one *"
	UserName string `json:"userName,omitempty"`
	// Group is a group of the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.contains('*')",message="must be the name of a group, without *"
	Group string `json:"group,omitempty"`
	// Extra is an extra attribute of the user, for example one that kube-apiserver
	// takes from a claim of an OpenID Connect token.
	// +optional
	Extra *ExtraMatch `json:"extra,omitempty"`
	// ServiceAccount is a ServiceAccount of the cluster.
	// +optional
	ServiceAccount *ServiceAccountMatch `json:"serviceAccount,omitempty"`
}

// ExtraMatch matches users by an extra attribute.
type ExtraMatch struct {
	// Key of the attribute, in lower case, for example example.com/email.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == self.lowerAscii()",message="must be in lower case, as Kubernetes writes all keys of extra attributes"
	Key string `json:"key"`
	// Value of the attribute. It may have one *, which stands for one or more
	// characters, for example *@example.com.
	// +optional
	// +kubebuilder:default="*"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.split('*').size() <= 2",message="must have at most one *"
	Value string `json:"value,omitempty"`
}

// ServiceAccountMatch matches ServiceAccounts.
type ServiceAccountMatch struct {
	// Namespace of the ServiceAccount.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	Namespace string `json:"namespace"`
	// Name of the ServiceAccount. It may have one *, which stands for one or more
	// characters.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-.a-z0-9]*[*]?[-.a-z0-9]*$') && size(self) > 0",message="must be the name of a ServiceAccount: lower case letters, digits, dashes and dots, and at most one *"
	Name string `json:"name"`
}

// CoderUserReference names a user of Coder. Where it has {name}, {match} or {extra},
// these stand for the caller's user name, for the text that * stands for in the match,
// and for the value of the extra attribute.
//
// +kubebuilder:validation:XValidation:rule="has(self.username) != has(self.email)",message="a Coder user is named by its username or by its email; give exactly one"
type CoderUserReference struct {
	// Username of the user in Coder, upper and lower case as Coder has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([-a-zA-Z0-9]|[{](name|match|extra)[}])+$')",message="must be a username in Coder, of letters, digits and dashes; {name}, {match} and {extra} stand for parts of the caller"
	Username string `json:"username,omitempty"`
	// Email of the user in Coder.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^{} ]|[{](name|match|extra)[}])+$') && (self.contains('@') || self.contains('{'))",message="must be an email address; {name}, {match} and {extra} stand for parts of the caller"
	Email string `json:"email,omitempty"`
}
