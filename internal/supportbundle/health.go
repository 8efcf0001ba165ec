package supportbundle

import (
	"context"
	"path"
)

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
		name := p.pod.GetName()
		answer, err := c.kube.CoreV1().RESTClient().Get().Namespace(p.pod.GetNamespace()).Resource("pods").
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
