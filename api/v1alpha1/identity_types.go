package v1alpha1

// IdentitySpec maps callers of the aggregated API to users of this Coder.
type IdentitySpec struct {
	// Rules map Kubernetes users to Coder users. The first rule that matches a caller applies. A
	// caller is never mapped only because a Coder user has the same name. A caller that no rule
	// matches is unmapped: the operator's account makes the caller's changes, and the caller needs
	// the verb impersonate on coderusers in the group aggregation.coder.com.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Rules []IdentityRule `json:"rules,omitempty"`
}

// IdentityRule maps the Kubernetes users that it matches to a Coder user, to the operator or to
// nobody.
//
// +kubebuilder:validation:XValidation:rule="[has(self.coderUser), has(self.operator) && self.operator, has(self.nobody) && self.nobody].filter(x, x).size() == 1",message="a rule maps to a coderUser, to the operator or to nobody; give exactly one"
// +kubebuilder:validation:XValidation:rule="!has(self.coderUser) || !((has(self.coderUser.username) && self.coderUser.username.contains('{match}')) || (has(self.coderUser.email) && self.coderUser.email.contains('{match}'))) || (has(self.match.userName) && self.match.userName.contains('*')) || (has(self.match.extra) && has(self.match.extra.value) && self.match.extra.value.contains('*')) || (has(self.match.serviceAccount) && self.match.serviceAccount.name.contains('*'))",message="{match} is the text that * stands for, so match.userName, match.extra.value or match.serviceAccount.name must have a *"
// +kubebuilder:validation:XValidation:rule="!has(self.coderUser) || !((has(self.coderUser.username) && self.coderUser.username.contains('{extra}')) || (has(self.coderUser.email) && self.coderUser.email.contains('{extra}'))) || has(self.match.extra)",message="{extra} is the value that match.extra found, so the rule must have match.extra"
type IdentityRule struct {
	// Match selects the callers to which the rule applies.
	Match IdentityMatch `json:"match"`
	// CoderUser is the Coder user as which the callers act.
	// +optional
	CoderUser *CoderUserReference `json:"coderUser,omitempty"`
	// Operator makes the callers act with the operator's account, which has the role owner: Coder
	// permits every request, and its audit log records the operator.
	// +optional
	Operator bool `json:"operator,omitempty"`
	// Nobody refuses all changes and sessions of the callers in this Coder, whatever their
	// Kubernetes roles are.
	// +optional
	Nobody bool `json:"nobody,omitempty"`
}

// IdentityMatch matches Kubernetes users by one attribute.
//
// +kubebuilder:validation:XValidation:rule="[has(self.userName), has(self.group), has(self.extra), has(self.serviceAccount)].filter(x, x).size() == 1",message="a match is a userName, a group, an extra or a serviceAccount; give exactly one"
type IdentityMatch struct {
	// UserName is the name of a user. It may contain one *, which matches one or more characters,
	// for example oidc:*@example.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.split('*').size() <= 2",message="must have at most one *"
	UserName string `json:"userName,omitempty"`
	// Group is the name of a group of the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.contains('*')",message="must be the name of a group, without *"
	Group string `json:"group,omitempty"`
	// Extra is an extra attribute of the user, for example one that kube-apiserver reads from a
	// claim of an OpenID Connect token.
	// +optional
	Extra *ExtraMatch `json:"extra,omitempty"`
	// ServiceAccount is a ServiceAccount of the cluster.
	// +optional
	ServiceAccount *ServiceAccountMatch `json:"serviceAccount,omitempty"`
}

// ExtraMatch matches users by an extra attribute.
type ExtraMatch struct {
	// Key is the key of the attribute, in lower case, for example example.com/email.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == self.lowerAscii()",message="must be in lower case, as Kubernetes writes all keys of extra attributes"
	Key string `json:"key"`
	// Value is the value of the attribute. It may contain one *, which matches one or more
	// characters, for example *@example.com. Defaults to *.
	// +optional
	// +kubebuilder:default="*"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.split('*').size() <= 2",message="must have at most one *"
	Value string `json:"value,omitempty"`
}

// ServiceAccountMatch matches ServiceAccounts.
type ServiceAccountMatch struct {
	// Namespace is the namespace of the ServiceAccount.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	Namespace string `json:"namespace"`
	// Name is the name of the ServiceAccount. It may contain one *, which matches one or more
	// characters.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-.a-z0-9]*[*]?[-.a-z0-9]*$') && size(self) > 0",message="must be the name of a ServiceAccount: lower case letters, digits, dashes and dots, and at most one *"
	Name string `json:"name"`
}

// CoderUserReference refers to a user of Coder by username or email address. The placeholders
// {name}, {match} and {extra} are replaced by the caller's user name, by the text that * matched,
// and by the value of the extra attribute.
//
// +kubebuilder:validation:XValidation:rule="has(self.username) != has(self.email)",message="a Coder user is named by its username or by its email; give exactly one"
type CoderUserReference struct {
	// Username is the username of the user in Coder. It is case-sensitive.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([-a-zA-Z0-9]|[{](name|match|extra)[}])+$')",message="must be a username in Coder, of letters, digits and dashes; {name}, {match} and {extra} stand for parts of the caller"
	Username string `json:"username,omitempty"`
	// Email is the email address of the user in Coder.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^{} ]|[{](name|match|extra)[}])+$') && (self.contains('@') || self.contains('{'))",message="must be an email address; {name}, {match} and {extra} stand for parts of the caller"
	Email string `json:"email,omitempty"`
}
