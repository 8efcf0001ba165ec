package apiserver

import (
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
)

// withoutTokens keeps bodies of coderworkspaces/token out of the audit log of this server,
// regardless of its policy, because responses contain a token.
type withoutTokens struct{ audit.PolicyRuleEvaluator }

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (e withoutTokens) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	config := e.PolicyRuleEvaluator.EvaluatePolicyRule(attributes)
	if attributes.GetResource() == workspace.Plural && attributes.GetSubresource() == workspace.TokenSubresource &&
		auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}
