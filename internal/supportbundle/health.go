package supportbundle

import (
	"context"
	"path"
)

// probesPort serves /readyz and /healthz, in clear and to everybody who reaches
// the pod.
const probesPort = "8081"

// health collects what the operator says of itself, through the API server.
func (c *collector) health(ctx context.Context, s *scope) {
	for _, p := range s.pods {
		if !p.operator {
			continue
		}
		name := p.pod.GetName()
		answer, err := c.kube.CoreV1().RESTClient().Get().Namespace(p.pod.GetNamespace()).Resource("pods").
			Name("http:"+name+":"+probesPort).SubResource("proxy").Suffix("readyz").Param("verbose", "true").Do(ctx).Raw()
		if ctx.Err() != nil {
			// What came then may be the end of the connection, not of the answer.
			answer, err = nil, ctx.Err()
		}
		// One that is not ready says so in plain text, with an error for a status. An answer
		// in JSON is that of kube-apiserver.
		if err != nil && (len(answer) == 0 || answer[0] == '{') {
			c.leave("the readiness of pod "+name, err)
			continue
		}
		c.addText(path.Join("installation", "readyz", name+".txt"), string(answer))
	}
}
