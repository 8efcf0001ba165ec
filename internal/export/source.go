package export

import (
	"cmp"
	"slices"
	"strings"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// found contains the templates and workspaces of a Coder.
type found struct {
	templates  []template
	workspaces []aggregationv1alpha1.CoderWorkspace
	users      []aggregationv1alpha1.CoderUser
}

// template is a template with additional information about its variables.
type template struct {
	aggregationv1alpha1.CoderTemplate
	// sensitive are the variables whose values Coder does not return.
	sensitive []string
	// told reports that Coder was asked which variables are sensitive.
	told bool
}

// sort sorts the objects into the order of the output.
func (f *found) sort() {
	slices.SortFunc(f.templates, func(a, b template) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(f.users, func(a, b aggregationv1alpha1.CoderUser) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(f.workspaces, func(a, b aggregationv1alpha1.CoderWorkspace) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
