package mcpserver

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestNamespacesAreThoseOfControlPlanes(t *testing.T) {
	kube := newKubeAPI(t)
	list := controlPlaneList(2)
	list.Items = append(list.Items, list.Items[0])
	kube.answer("GET "+controlPlanesPath, http.StatusOK, list)
	objects, err := metadata.NewForConfig(&rest.Config{Host: kube.URL, BearerToken: ownToken})
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	n := newNamespaces(objects, clk)
	for i, asked := range []int{1, 1, 2} {
		got, err := n.list(t.Context())
		if diff := cmp.Diff([]string{"team-00", "team-01"}, got); err != nil || diff != "" {
			t.Fatalf("%v, namespaces (-want +got):\n%s", err, diff)
		}
		if seen := kube.requests("", controlPlanesPath); len(seen) != asked {
			t.Errorf("after question %d the API server was asked %d times, want %d", i, len(seen), asked)
		} else if accept := seen[0].Header.Get("Accept"); !strings.Contains(accept, "as=PartialObjectMetadataList") {
			t.Errorf("more than the metadata is read: Accept is %q", accept)
		}
		clk.SetTime(clk.Now().Add(namespacesTTL - time.Second))
	}
}

func TestNamespacesOfTheOperatorAreNotLookedFor(t *testing.T) {
	cfg := Config{WatchNamespaces: []string{"team-a"}}
	list, err := cfg.namespaces(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := list(t.Context()); err != nil || len(got) != 1 || got[0] != "team-a" {
		t.Errorf("%q, %v", got, err)
	}
}
