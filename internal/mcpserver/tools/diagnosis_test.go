package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
)

// callDiagnosis returns the report, or the error message of the tool.
func callDiagnosis(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) (report diagnosis.Report, told string) {
	t.Helper()
	text, isError := tell(t, session, tool, arguments)
	if isError {
		return report, text
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatal(err)
	}
	return report, ""
}

func TestDiagnoseControlPlane(t *testing.T) {
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder"}}
	cp.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: "False", Reason: "DatabaseUnreachable", Message: "Coder cannot use its database: dial tcp 10.0.0.1:5432: connect: connection refused; check that PostgreSQL runs"},
		{Type: "DeploymentAvailable", Status: "False", Reason: "DatabaseUnreachable", Message: "Coder cannot use its database: dial tcp 10.0.0.1:5432: connect: connection refused; check that PostgreSQL runs"},
	}
	session := connect(t, fakeKube(t, interceptor.Funcs{}, nil, cp))
	report, told := callDiagnosis(t, session, "diagnose_control_plane", map[string]any{"namespace": "coder", "name": "coder"})
	if told != "" || report.Healthy || !strings.Contains(report.Summary, "connection refused; check that PostgreSQL runs") {
		t.Errorf("%+v", report)
	}
	if len(report.Problems) != 1 || report.Problems[0].Reason != "DatabaseUnreachable" {
		t.Errorf("problems %+v", report.Problems)
	}
}

func TestDiagnoseWorkspace(t *testing.T) {
	ws := devWorkspace("Failed")
	ws.Status.LatestBuild.Error = "insufficient quota"
	setCondition(&ws.Status.Conditions, "Ready", metav1.ConditionFalse, "BuildFailed", "the start build failed: insufficient quota")
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder"}}
	session := connect(t, fakeKube(t, interceptor.Funcs{}, nil, ws, cp))
	report, told := callDiagnosis(t, session, "diagnose_workspace", map[string]any{"namespace": "coder", "name": devName})
	if told != "" || !strings.Contains(report.Summary, "the start build failed: insufficient quota") || report.Build == nil {
		t.Errorf("%+v", report)
	}
}

func TestDiagnosisOfNothing(t *testing.T) {
	session := connect(t, fakeKube(t, interceptor.Funcs{}, nil))
	for _, c := range []struct {
		arguments map[string]any
		want      string
	}{
		{map[string]any{"namespace": "coder", "name": "none"}, "none"},
		{map[string]any{"namespace": "coder", "name": ""}, "name is required"},
		{map[string]any{"namespace": "", "name": "coder"}, "namespace is required"},
	} {
		for _, tool := range []string{"diagnose_control_plane", "diagnose_workspace"} {
			if _, told := callDiagnosis(t, session, tool, c.arguments); !strings.Contains(told, c.want) {
				t.Errorf("%s %v: %s", tool, c.arguments, told)
			}
		}
	}
}
