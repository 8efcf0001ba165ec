package tools

import (
	"context"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// writeSpec applies change to obj, which was read before, and updates it in the API. On a
// conflict it reads the object again and repeats the change. It does not write if change
// returns false. On success, obj is the object that the API returned.
func writeSpec(ctx context.Context, call *toolset.Call, obj client.Object, dryRun bool, change func() bool) error {
	var options []client.UpdateOption
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	key, fresh := client.ObjectKeyFromObject(obj), true
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !fresh {
			if err := call.Kube.Get(ctx, key, obj); err != nil {
				return err
			}
		}
		fresh = false
		if !change() {
			return nil
		}
		return call.Kube.Update(ctx, obj, options...)
	})
}

// writeTemplate is writeSpec for a template.
func writeTemplate(
	ctx context.Context, call *toolset.Call, tmpl *aggregationv1alpha1.CoderTemplate, dryRun bool,
	change func(*aggregationv1alpha1.CoderTemplateSpec) bool,
) error {
	key := client.ObjectKeyFromObject(tmpl)
	if err := writeSpec(ctx, call, tmpl, dryRun, func() bool { return change(&tmpl.Spec) }); err != nil {
		return templateError("update", key.Namespace, key.Name, err)
	}
	return nil
}
