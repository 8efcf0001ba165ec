package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// benchTool is a tool with a small answer that sends no requests.
const benchTool = "list_things"

type benchInput struct {
	Namespace string `json:"namespace,omitempty"`
}

type benchThing struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Phase     string `json:"phase"`
	Ready     int    `json:"readyReplicas"`
	URL       string `json:"url"`
}

type benchOutput struct {
	Items []benchThing `json:"items"`
}

func benchAnswer() benchOutput {
	var out benchOutput
	for i := range 20 {
		out.Items = append(out.Items, benchThing{
			Name: "coder", Namespace: fmt.Sprintf("team-%02d", i), Phase: "Ready", Ready: 2, URL: fmt.Sprintf("https://coder-%02d.example.com", i),
		})
	}
	return out
}

// benchStack returns the complete handler, with a tool that sends no requests.
func benchStack(b *testing.B) http.Handler {
	b.Helper()
	kube := newKubeAPI(b)
	cfg := Config{
		Options:    *NewOptions(),
		RESTConfig: &rest.Config{Host: kube.URL, BearerToken: ownToken, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Scheme:     testScheme(b), Mapper: testMapper(), Namespace: "coder-system", ClusterDomain: "cluster.local",
		Logger: logr.Discard(), Registerer: prometheus.NewRegistry(),
	}
	cfg.Options.RateLimit, cfg.Options.RateBurst = 1e6, 1e6
	offered := &toolset.Set{}
	toolset.Add(offered, toolset.Definition{Name: benchTool, Title: "List things", Description: "Lists things.", Toolset: toolset.Observation, Effect: toolset.Reads},
		func(context.Context, *toolset.Call, benchInput) (benchOutput, error) { return benchAnswer(), nil })
	s, err := newServer(cfg, offered)
	if err != nil {
		b.Fatal(err)
	}
	return s.handler
}

// bareSDK returns a handler with the same tool on the SDK alone.
func bareSDK() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "v0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: benchTool, Description: "Lists things."},
		func(context.Context, *mcp.CallToolRequest, benchInput) (*mcp.CallToolResult, benchOutput, error) {
			return nil, benchAnswer(), nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
}

func benchServer(b *testing.B, handler http.Handler) string {
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// benchClient sends the same request repeatedly over one connection. It uses few resources,
// because it runs in the same process as the server.
type benchClient struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
}

func newBenchClient(b *testing.B, address, tool string) *benchClient {
	b.Helper()
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, modernProtocol)
	var request bytes.Buffer
	fmt.Fprintf(&request, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Authorization: Bearer %s\r\nMcp-Protocol-Version: %s\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\nContent-Length: %d\r\n\r\n%s",
		address, aliceToken, modernProtocol, tool, len(body), body)
	return &benchClient{conn: conn, answers: bufio.NewReader(conn), request: request.Bytes()}
}

// call returns how long the call took.
func (c *benchClient) call(b *testing.B) time.Duration {
	start := time.Now()
	if _, err := c.conn.Write(c.request); err != nil {
		b.Fatal(err)
	}
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	if response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte("team-19")) {
		b.Fatalf("the answer is %d %s", response.StatusCode, answer)
	}
	return took
}

func milliseconds(took []time.Duration, part float64) float64 {
	slices.Sort(took)
	return float64(took[int(part*float64(len(took)-1))].Microseconds()) / 1000
}

// measured makes calls sequentially on one core.
func measured(b *testing.B, address, tool string) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	client := newBenchClient(b, address, tool)
	client.call(b)
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		took = append(took, client.call(b))
	}
	b.ReportMetric(milliseconds(took, .5), "p50-ms")
	b.ReportMetric(milliseconds(took, .99), "p99-ms")
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
}

func BenchmarkBareSDK(b *testing.B) { measured(b, benchServer(b, bareSDK()), benchTool) }

// The results of reviews are cached, as they are for all but one call in ten seconds.
func BenchmarkCallThroughTheStack(b *testing.B) {
	measured(b, benchServer(b, benchStack(b)), benchTool)
}

// With one request to a fake Kubernetes API in the same process.
func BenchmarkCallThatReadsKubernetes(b *testing.B) {
	h := newHarness(b)
	h.server.cfg.Logger = logr.Discard()
	h.kube.answer("GET "+controlPlanesPath, http.StatusOK, controlPlaneList(20))
	measured(b, benchServer(b, h.server.handler), "list_control_planes")
}

// BenchmarkOverheadAt200ASecond calls both servers alternately, so that other load on the
// machine affects both, and reports the difference.
func BenchmarkOverheadAt200ASecond(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	bare, stack := newBenchClient(b, benchServer(b, bareSDK()), benchTool), newBenchClient(b, benchServer(b, benchStack(b)), benchTool)
	bare.call(b)
	stack.call(b)
	tick := time.NewTicker(time.Second / 200)
	defer tick.Stop()
	var ofBare, ofStack []time.Duration
	for b.Loop() {
		<-tick.C
		ofBare = append(ofBare, bare.call(b))
		<-tick.C
		ofStack = append(ofStack, stack.call(b))
	}
	b.ReportMetric(milliseconds(ofBare, .5), "bare-p50-ms")
	b.ReportMetric(milliseconds(ofBare, .99), "bare-p99-ms")
	b.ReportMetric(milliseconds(ofStack, .5)-milliseconds(ofBare, .5), "overhead-p50-ms")
	b.ReportMetric(milliseconds(ofStack, .99)-milliseconds(ofBare, .99), "overhead-p99-ms")
}

// BenchmarkTwoHundredClients runs 200 clients of both protocol revisions, each with ten
// calls. It reports the resources of the process, including those of the clients and the
// fake API server.
func BenchmarkTwoHundredClients(b *testing.B) {
	h := running(b, func(c *Config) { c.Options.MaxInFlight = 0 })
	soak(b, h, 2, 2, 1)
	before := runtime.NumGoroutine()
	calls := 0
	for b.Loop() {
		soak(b, h, 200, 200, 10)
		calls += 200 * 10
	}
	b.ReportMetric(float64(calls)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(residentMiB(b), "MiB")
	h.kube.CloseClientConnections()
	b.ReportMetric(float64(runtime.NumGoroutine()-before), "goroutines-left")
}

// residentMiB returns the resident memory of the process on Linux.
func residentMiB(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("this system does not tell")
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	return 0
}
