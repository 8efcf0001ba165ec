package plugin

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// reviewing makes the API say that the caller is a user of Coder, or of none.
func reviewing(api *fakeAPI, user string) {
	api.answer("POST "+inCoder+"/coderselfreviews", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusCreated, fields{
			"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderSelfReview",
			"status": fields{"user": "kate", "controlPlanes": []any{fields{"controlPlane": "coder", "actsAs": "CoderUser", "coderUser": user}}},
		})
	})
}

// TestANameWithoutAnOwnerIsOnesOwn checks that a command which enters a workspace finds only the
// caller's own ones by a name without an owner. After the deletion of coder.ada.dev, dev must not be
// coder.bo.dev, and while it exists, coder.bo.dev must not make dev ambiguous.
func TestANameWithoutAnOwnerIsOnesOwn(t *testing.T) {
	const otherOnly = `"dev" not found among your own workspaces in namespace coder, but others have coder.bo.dev: give the name with its owner`
	for _, test := range []struct {
		what string
		user string
		name string
		// deleted is true if coder.ada.dev does not exist any more.
		deleted bool
		want    string
		says    string
	}{
		{what: "own", user: "Ada", name: "dev", want: "coder.ada.dev"},
		{what: "own, of another owner", user: "bo", name: "dev", want: "coder.bo.dev"},
		{what: "deleted", user: "ada", name: "dev", deleted: true, says: otherOnly},
		{what: "deleted, with its owner", user: "ada", name: "ada.dev", deleted: true, says: `"ada.dev" not found in namespace coder`},
		{what: "of another, with its owner", user: "ada", name: "bo.dev", deleted: true, want: "coder.bo.dev"},
		{what: "a caller without a user", name: "dev", deleted: true, says: otherOnly},
		{what: "a caller without a user, with an owner", name: "ada.dev", want: "coder.ada.dev"},
		{what: "a name that nobody has", user: "ada", name: "web", says: `"web" not found among your own workspaces in namespace coder; kubectl get coderworkspaces -A`},
	} {
		for _, line := range [][]string{
			{"exec", test.name, "--", "true"}, {"ssh", test.name, "--", "true"}, {"cp", test.name + ":x", t.TempDir()},
			{"ssh", "--stdio", "--host-suffix", "cws", "--", test.name + ".cws"},
			{"ssh", "--stdio", "--host-suffix", "cws", "--", test.name + "--gpu.cws"},
		} {
			t.Run(test.what+"/"+line[0], func(t *testing.T) {
				api := sampleAPI(t)
				reviewing(api, test.user)
				if test.deleted {
					delete(api.objects[workspaces], "coder/coder.ada.dev")
				}
				entered := map[string]*inside{}
				for _, name := range []string{"coder.ada.dev", "coder.bo.dev"} {
					entered[name] = newInside(t, api, name)
				}
				got := newHarness().run(t, api, append([]string{"-n", "coder"}, line...)...)
				for name, i := range entered {
					if (len(i.asked) > 0) != (name == test.want) {
						t.Errorf("%q entered %s: %q; %s", line, name, i.asked, got.err)
					}
				}
				if test.want == "" {
					got.want(t, 1, "", test.says)
				}
			})
		}
	}
}

// TestOwnNamesNeedAReview checks that nothing is guessed if it is not known who the caller is, and that
// a name with an owner needs no such request.
func TestOwnNamesNeedAReview(t *testing.T) {
	api := sampleAPI(t)
	api.answer("POST "+inCoder+"/coderselfreviews", refuse(http.StatusForbidden, "Forbidden", "no review"))
	i := newInside(t, api, "coder.ada.dev")
	newHarness().run(t, api, "-n", "coder", "exec", "dev", "--", "true").want(t, 1, "", "finding your own workspaces, to which a name without an owner refers: no review")
	newHarness().run(t, api, "-n", "coder", "exec", "ada.dev", "--", "true")
	if !slices.Equal(i.asked, []string{"command=true&stderr=true&stdout=true"}) {
		t.Errorf("it asked for %q", i.asked)
	}
}

// TestOwnNamesNeedAUser checks that the error shows why the caller's user is not known.
func TestOwnNamesNeedAUser(t *testing.T) {
	api := sampleAPI(t)
	api.answer("POST "+inCoder+"/coderselfreviews", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusCreated, fields{
			"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderSelfReview",
			"status": fields{"controlPlanes": []any{fields{"controlPlane": "coder", "actsAs": "CoderUser", "problem": "Coder does not answer"}}},
		})
	})
	newHarness().run(t, api, "-n", "coder", "ssh", "dev").want(t, 1, "",
		`"dev" not found among your own workspaces in namespace coder, because your Coder user is not known: Coder does not answer; there is coder.ada.dev`)
}

// TestCompleteNames checks that the completion offers whole names, and the values of flags for a name without an owner.
func TestCompleteNames(t *testing.T) {
	for _, test := range []struct {
		user, line string
		want       string
	}{
		{"", "exec coder.a", "coder.ada.dev\n"},
		{"", "cp coder.a", "coder.ada.dev:\n"},
		{"ada", "stop d", ""},
		{"ada", "exec dev --agent ", "main\n"},
		{"ada", "open dev c", "code\n"},
		{"bo", "open dev c", ""},
	} {
		api := sampleAPI(t)
		reviewing(api, test.user)
		api.setStatus(workspaces, "coder.ada.dev", fields{"agents": []any{fields{"name": "main", "apps": []any{fields{"slug": "code"}}}}})
		words := strings.Split(test.line, " ")
		got := newHarness().run(t, api, append([]string{"-n", "coder", "__complete"}, words...)...)
		offered, _, _ := strings.Cut(got.out, ":")
		if words[0] == "cp" {
			offered = strings.TrimSuffix(got.out, ":2\n")
		}
		if lines := strings.Split(strings.TrimSuffix(offered, "\n"), "\n"); strings.Join(slices.Sorted(slices.Values(lines)), "\n") != strings.TrimSuffix(test.want, "\n") {
			t.Errorf("%q: %s completes to %q, want %q", test.user, test.line, got.out, test.want)
		}
	}
}
