package plugin

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const helloPath = inCoder + "/codertemplates/coder.hello"

// versionsOfHello returns a list of CoderTemplateVersions with these statuses.
func versionsOfHello(statuses ...fields) fields {
	items := []any{}
	for i, status := range statuses {
		items = append(items, fields{"metadata": fields{"namespace": "coder", "name": fmt.Sprintf("coder.hello.v%d", i)}, "status": status})
	}
	return fields{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderTemplateVersionList", "items": items}
}

func TestBuildLogs(t *testing.T) {
	api := sampleAPI(t)
	log := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { text(body+r.URL.RawQuery+"\n")(w, r) }
	}
	api.answer("GET "+inCoder+"/coderworkspaces/coder.ada.dev/log", log("1 a\n2 b\x1b[2J\n3 "))
	api.answer("GET "+inCoder+"/coderworkspaces/coder.bo.dev/log", refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "build=9: the workspace has builds 1 to 2"))
	api.answer("GET "+helloPath+"/log", log("template "))
	api.answer("GET "+inCoder+"/codertemplateversions", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, versionsOfHello(fields{"id": "22222222-2222-2222-2222-222222222222", "versionName": "two"}))
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
		"logs template/hello --scripts":     {2, "", "--scripts does not apply here"},
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
