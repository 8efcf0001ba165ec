package supportbundle

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// events collects the events of a namespace, one line each, oldest first.
func (c *collector) events(ctx context.Context, namespace string) {
	list, err := c.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		c.leave("the events of namespace "+namespace, err)
		return
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Or(podproblem.EventTime(&a).Compare(podproblem.EventTime(&b)), cmp.Compare(a.Name, b.Name))
	})
	var b strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s %-7s %-24s %s/%s x%d %s: %s\n", podproblem.EventTime(&e).UTC().Format(time.RFC3339), e.Type, e.Reason,
			e.InvolvedObject.Kind, e.InvolvedObject.Name, podproblem.EventCount(&e), cmp.Or(e.ReportingController, e.Source.Component),
			strings.ReplaceAll(e.Message, "\n", "\\n"))
	}
	c.addText(path.Join(folderOf(namespace), "events.txt"), b.String())
}
