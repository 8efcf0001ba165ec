package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
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
		{Type: "Ready", Status: "False", Reason: "DatabaseUnreachable", Message: "Coder cannot use its database: dial tcp 10.0.0.1:5432: connect: connection refused"},
		{Type: "DeploymentAvailable", Status: "False", Reason: "DatabaseUnreachable", Message: "Coder cannot use its database: dial tcp 10.0.0.1:5432: connect: connection refused"},
	}
	session := connect(t, fakeKube(t, interceptor.Funcs{}, nil, cp))
	report, told := callDiagnosis(t, session, "diagnose_control_plane", map[string]any{"namespace": "coder", "name": "coder"})
	if told != "" || report.Healthy || !strings.Contains(report.Summary, "no server listens at the host and port of the database") {
		t.Errorf("%+v", report)
	}
	if report.Findings == nil || report.Conditions == nil {
		t.Error("an empty list is null")
	}
}

func TestDiagnoseWorkspace(t *testing.T) {
	ws := devWorkspace("Failed")
	ws.Status.LatestBuild.Error = "insufficient quota"
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder"}}
	session := connect(t, fakeKube(t, interceptor.Funcs{}, nil, ws, cp))
	report, told := callDiagnosis(t, session, "diagnose_workspace", map[string]any{"namespace": "coder", "name": devName})
	if told != "" || !strings.Contains(report.Summary, "quota in Coder does not allow it") || report.Build == nil {
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

// TestNextToolsExist checks that the calls that a diagnosis proposes are valid.
func TestNextToolsExist(t *testing.T) {
	session := connect(t, fakeKube(t, interceptor.Funcs{}, nil))
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]map[string]any{}
	for _, tool := range list.Tools {
		schema, ok := tool.InputSchema.(map[string]any)
		if !ok {
			t.Fatalf("the schema of %s is a %T", tool.Name, tool.InputSchema)
		}
		arguments[tool.Name], _ = schema["properties"].(map[string]any)
	}
	files, err := filepath.Glob("../diagnosis/testdata/*.golden.json")
	if err != nil || len(files) < 6 {
		t.Fatalf("golden reports: %v %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var report diagnosis.Report
		if err := json.Unmarshal(raw, &report); err != nil {
			t.Fatal(err)
		}
		if len(report.NextTools) == 0 {
			t.Errorf("%s proposes no call", file)
		}
		for _, next := range report.NextTools {
			for argument := range next.Arguments {
				if arguments[next.Tool][argument] == nil {
					t.Errorf("%s: %s has no argument %s", file, next.Tool, argument)
				}
			}
		}
	}
}
