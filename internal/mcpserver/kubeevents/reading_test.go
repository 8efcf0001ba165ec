package kubeevents

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages is an API with this number of pages, with one Event each. It fails at one of them.
type pages struct {
	client.Reader
	have, failAt, asked int
}

var errBroken = errors.New("broken")

func (p *pages) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Limit != Page || options.Namespace != "coder" || options.Continue != strings.Repeat("n", p.asked) {
		return errors.New("it asks for something else")
	}
	if p.asked++; p.asked == p.failAt {
		return errBroken
	}
	list.(*corev1.EventList).Items = make([]corev1.Event, 1)
	if p.asked < p.have {
		list.SetContinue(strings.Repeat("n", p.asked))
	}
	return nil
}

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		api  pages
		read int
		next string
		err  error
	}{
		"one page":        {pages{have: 1}, 1, "", nil},
		"just all":        {pages{have: Pages}, Pages, "", nil},
		"too many":        {pages{have: 10}, Pages, "nnnn", nil},
		"broken at first": {pages{have: 3, failAt: 1}, 0, "", errBroken},
		"broken later":    {pages{have: 3, failAt: 2}, 1, "", errBroken},
	} {
		read, next, failed := Read(t.Context(), &tt.api, client.ListOptions{Namespace: "coder", Limit: 3})
		if len(read) != tt.read || next != tt.next || (failed == nil) != (tt.err == nil) {
			t.Errorf("%s: %d Events, next %q, %v", name, len(read), next, failed)
		}
		if failed != nil && (!errors.Is(failed, tt.err) || failed.Resource != "events" || failed.Namespace != "coder") {
			t.Errorf("%s: %v", name, failed)
		}
	}
}
