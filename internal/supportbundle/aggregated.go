package supportbundle

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// mostListed is the maximum number of workspaces or templates of a namespace in the
// archive. Those that are not ready come first.
const mostListed = 300

// aggregated collects the workspaces and templates of a namespace, without values.
func (c *collector) aggregated(ctx context.Context, namespace string) {
	for _, plural := range []string{"codertemplates", "coderworkspaces"} {
		var items []*unstructured.Unstructured
		phases := map[string]int{}
		err := c.each(ctx, aggregationv1alpha1.GroupVersion.WithResource(plural), namespace, "", func(object *unstructured.Unstructured) {
			phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
			phases[cmp.Or(phase, "Ready="+readiness(object))]++
			items = append(items, object)
		})
		if err != nil {
			c.leave(fmt.Sprintf("the %s of namespace %s", plural, namespace), err)
			continue
		}
		if len(items) == 0 {
			continue
		}
		slices.SortStableFunc(items, func(a, b *unstructured.Unstructured) int { return cmp.Compare(urgency(a), urgency(b)) })
		shown := make([]any, 0, min(len(items), mostListed))
		for _, item := range items[:min(len(items), mostListed)] {
			shown = append(shown, cleaner{c.redactor}.object(item))
		}
		c.addYAML(path.Join(folderOf(namespace), plural+".yaml"), map[string]any{"count": len(items), "byState": phases, "items": shown})
		if len(items) > mostListed {
			c.left = append(c.left, fmt.Sprintf("%d of the %d %s of namespace %s: only %d are kept, those that are not ready first",
				len(items)-mostListed, len(items), plural, namespace, mostListed))
		}
	}
}

// urgency returns 1 for objects that are ready and 0 for others, which are sorted first.
func urgency(object *unstructured.Unstructured) int {
	if readiness(object) == "True" {
		return 1
	}
	return 0
}

func readiness(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["type"] == aggregationv1alpha1.ConditionReady {
			status, _ := c["status"].(string)
			return status
		}
	}
	return "Unknown"
}
