package plugin

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const helloPath = inCoder + "/codertemplates/coder.hello"

func TestBuildLogs(t *testing.T) {
	api := sampleAPI(t)
	log := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { text(body+r.URL.RawQuery+"\n")(w, r) }
	}
	api.answer("GET "+inCoder+"/coderworkspaces/coder.ada.dev/log", log("1 a\n2 b\x1b[2J\n3 "))
	api.answer("GET "+inCoder+"/coderworkspaces/coder.bo.dev/log", refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "build=9: the workspace has builds 1 to 2"))
	api.answer("GET "+helloPath+"/log", log("template "))
	api.answer("GET "+helloPath+"/versions", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"items": []any{map[string]any{"id": "22222222-2222-2222-2222-222222222222", "name": "two"}}})
	})
	runEach(t, api, map[string]answer{
		"logs ada.dev":                      {0, "1 a\n2 b\x1b[2J\n3 \n", ""},
		"logs ada.dev -f":                   {0, "3 follow=true\n", ""},
		"logs ada.dev --build 7":            {0, "3 build=7\n", ""},
		"logs bo.dev --build 9":             {2, "", "the log of coder.bo.dev: build=9: the workspace has builds 1 to 2"},
		"logs template/hello":               {0, "template \n", ""},
		"logs template/hello --version two": {0, "template version=22222222-2222-2222-2222-222222222222\n", ""},
		"logs template/hello --version one": {1, "", `template coder.hello has no version "one"; the newest of its 1 are two`},
		"logs ada.dev --version two":        {2, "", "--version does not apply here"},
		"logs ada.dev --previous":           {2, "", "--previous does not apply here"},
		"logs template/hello --agent":       {2, "", "--agent does not apply here"},
		"logs ada.dev --tail -2":            {2, "", "--tail is -2"},
		"logs":                              {2, "", "give the name of one workspace"},
	})
	if got := newHarness().run(t, api, "-n", "coder", "logs", "ada.dev", "--tail", "2"); got.out != "2 b\x1b[2J\n3 \n" {
		t.Errorf("the last two lines are %q", got.out)
	}
	if got := newHarness().run(t, api, "-n", "coder", "logs", "ada.dev", "-f", "--tail", "1"); got.out != "3 follow=true\n" {
		t.Errorf("the last line, followed, is %q", got.out)
	}
	d := newHarness()
	d.coloured = true
	if got := d.run(t, api, "-n", "coder", "logs", "ada.dev", "--tail", "2"); got.out != "2 b[2J\n3 \n" {
		t.Errorf("on a terminal it is %q", got.out)
	}
}

// crashingInit is a pod of workspace coder.bo.api whose init container crashes.
const crashingInit = `apiVersion: v1
kind: Pod
metadata: {name: bo-api, namespace: pods-of-ada, labels: {com.coder.workspace.id: aaaaaaaa-0000-0000-0000-000000000002}}
spec: {initContainers: [{name: home}], containers: [{name: dev}]}
status:
  initContainerStatuses: [{name: home, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 2}}}]
  containerStatuses: [{name: dev, state: {waiting: {reason: PodInitializing}}}]`

func TestPodLogs(t *testing.T) {
	api := sampleAPI(t)
	api.apply(t, crashingInit)
	api.answer("GET /api/v1/namespaces/coder/pods/coder-new-1/log", func(w http.ResponseWriter, r *http.Request) { text("coderd "+r.URL.RawQuery)(w, r) })
	for _, pod := range []string{"ada-dev", "bo-api"} {
		api.answer("GET /api/v1/namespaces/pods-of-ada/pods/"+pod+"/log", func(w http.ResponseWriter, r *http.Request) {
			text("of "+r.URL.Query().Get("container")+" "+r.URL.Query().Get("previous"))(w, r)
		})
	}
	runEach(t, api, map[string]answer{
		"logs controlplane/coder":                        {0, "coderd container=coder\n", ""},
		"logs ccp/coder --tail 5":                        {0, "coderd container=coder&tailLines=5\n", ""},
		"logs ada.dev --agent":                           {0, "[ada-dev/dev] of dev \n[ada-dev/sidecar] of sidecar \n", ""},
		"logs ada.dev --agent -c dev --previous":         {0, "of dev true\n", ""},
		"logs ada.dev --agent -f":                        {0, "[ada-dev/sidecar] of sidecar \n", ""},
		"logs ada.dev --agent -c x":                      {2, "", `there is no "x", only dev, sidecar`},
		"logs ada.dev --agent --previous":                {1, "", "no container was restarted: omit --previous; --container selects one of dev, sidecar"},
		"logs bo.api --agent":                            {0, "of dev \n", ""},
		"logs bo.api --agent -c home":                    {0, "of home \n", ""},
		"logs bo.api --agent --previous":                 {0, "of home true\n", ""},
		"logs bo.api --agent -c x":                       {2, "", `there is no "x", only dev, home`},
		"logs ada.dev --agent --pod-namespace elsewhere": {1, "", "has no pod in elsewhere with the label com.coder.workspace.id=aaaaaaaa-0000-0000-0000-000000000001: it is running"},
		"logs bo.dev --agent":                            {1, "", "has no pod in coder, pods-of-ada"},
	})
}
