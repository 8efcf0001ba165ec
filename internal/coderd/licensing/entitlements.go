package licensing

import (
	"context"
	"slices"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

// readEntitlements reads what the licenses allow. If Coder does not return that, the state of the
// license does not change, and the next attempt follows soon.
func (p *pass) readEntitlements(ctx context.Context) error {
	about := ensure.DigestOf(p.req.Instance)
	if known, ok := p.entitlements.Get(p.req.Key, about, p.now); ok {
		p.result.Allowance = &known.Value
		p.wake(known.Until)
		return nil
	}
	coder, err := p.coder(ctx)
	if err != nil {
		return err
	}
	var allowance Allowance
	answer, err := coder.Entitlements(ctx)
	switch {
	case coderd.IsNotSupported(err):
		none := string(coderd.NotEntitled)
		allowance = Allowance{Tier: string(coderd.TierNone), ExternalProvisioners: none, WorkspaceProxy: none, HighAvailability: none}
	case err != nil:
		p.result.AllowanceErr = err
		p.requeue(retryAfter(err))
		return nil
	default:
		allowance = Allowance{
			Tier:                 string(answer.Tier()),
			ExternalProvisioners: entitlement(answer.Of(coderd.FeatureExternalProvisioners)),
			WorkspaceProxy:       entitlement(answer.Of(coderd.FeatureWorkspaceProxy)),
			HighAvailability:     entitlement(answer.Of(coderd.FeatureHighAvailability)),
		}
	}
	p.result.Allowance = &allowance
	p.entitlements.Put(p.req.Key, ensure.Entry[Allowance]{Value: allowance, Digest: about, Until: p.now.Add(p.result.RequeueAfter)})
	return nil
}

// entitlement maps values that the API does not define, for example of a newer Coder, to unknown.
func entitlement(e coderd.Entitlement) string {
	known := []coderd.Entitlement{coderd.Entitled, coderd.GracePeriod, coderd.NotEntitled}
	if !slices.Contains(known, e) {
		e = coderd.EntitlementUnknown
	}
	return string(e)
}

func retryAfter(err error) time.Duration {
	if after := coderd.RetryAfter(err); after > 0 {
		return max(after, soon)
	}
	return retryUnreachable
}
