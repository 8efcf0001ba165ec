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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

func (c *collector) versions() {
	out := map[string]any{"program": version.String(), "collectedAt": c.now().UTC().Format("2006-01-02T15:04:05Z")}
	server, err := c.kube.Discovery().ServerVersion()
	if err != nil {
		c.leave("the version of Kubernetes", err)
	} else {
		out["kubernetes"] = server
	}
	groups, err := c.kube.Discovery().ServerGroups()
	if err != nil {
		c.leave("the API groups of the cluster", err)
	} else {
		var names []string
		for _, group := range groups.Groups {
			for _, v := range group.Versions {
				names = append(names, v.GroupVersion)
			}
		}
		out["apis"] = names
	}
	c.addYAML("versions.yaml", out)
	c.describe("versions.yaml", "versions of this program and of Kubernetes, and the APIs of the cluster")
}

func (c *collector) problems(ctx context.Context) {
	found, err := c.check(ctx, c.config, installation.Expectation{
		Namespace: c.operatorNamespace, Controllers: true, AggregatedAPI: true, MCP: true,
	})
	if err != nil {
		c.leave("the problems of the installation", err)
		if len(found) == 0 {
			return
		}
	}
	if found == nil {
		found = []installation.Problem{}
	}
	c.addYAML("problems.yaml", map[string]any{"problems": found})
	c.describe("problems.yaml", "what is wrong with the installation, as kubectl coder status reports it; an empty list means no problem")
}

// probesPort is the port of /readyz and /healthz. It uses plain HTTP without
// authentication.
const probesPort = "8081"

// health collects the readiness of the operator's pods, through the proxy of
// kube-apiserver.
func (c *collector) health(ctx context.Context, s *scope) {
	for _, p := range s.pods {
		if !p.operator {
			continue
		}
		name := p.pod.Name
		answer, err := c.kube.CoreV1().RESTClient().Get().Namespace(p.pod.Namespace).Resource("pods").
			Name("http:"+name+":"+probesPort).SubResource("proxy").Suffix("readyz").Param("verbose", "true").Do(ctx).Raw()
		if ctx.Err() != nil {
			// After the timeout, the response may be incomplete.
			answer, err = nil, ctx.Err()
		}
		// A pod that is not ready responds with plain text and an error status. A JSON
		// response is an error of kube-apiserver.
		if err != nil && (len(answer) == 0 || answer[0] == '{') {
			c.leave("the readiness of pod "+name, err)
			continue
		}
		c.addText(path.Join("installation", "readyz", name+".txt"), string(answer))
	}
}

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
