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
)

// events collects the events of a namespace, one line each, oldest first.
func (c *collector) events(ctx context.Context, namespace string) {
	list, err := c.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		c.leave("the events of namespace "+namespace, err)
		return
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Or(lastSeen(a).Compare(lastSeen(b)), cmp.Compare(a.Name, b.Name))
	})
	var b strings.Builder
	for _, e := range list.Items {
		count := max(e.Count, 1)
		if e.Series != nil {
			count = max(count, e.Series.Count)
		}
		fmt.Fprintf(&b, "%s %-7s %-24s %s/%s x%d %s: %s\n", lastSeen(e).UTC().Format(time.RFC3339), e.Type, e.Reason,
			e.InvolvedObject.Kind, e.InvolvedObject.Name, count, cmp.Or(e.ReportingController, e.Source.Component),
			strings.ReplaceAll(e.Message, "\n", "\\n"))
	}
	c.addText(path.Join(folderOf(namespace), "events.txt"), b.String())
}

// lastSeen returns the time of the last occurrence of an event.
func lastSeen(e corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	for _, at := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return e.CreationTimestamp.Time
}
