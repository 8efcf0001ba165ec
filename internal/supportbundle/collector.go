package supportbundle

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// checkFunc looks at the installation, as installation.Check does.
type checkFunc func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error)

// collector is the making of one bundle.
type collector struct {
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	check   checkFunc
	now     func() time.Time
	tunnel  tunnelFunc

	// operatorNamespace is where the operator is, namespace the only one whose
	// control planes are looked at. It is empty for all.
	operatorNamespace, namespace string
	// since is how far back logs go.
	since time.Duration
	// metricsToken may read the operator's metrics. Without it they are left out.
	metricsToken string

	redactor *redaction.Redactor
	archive  *archive
	parts    []part
	left     []string
	// unlearned are the namespaces whose Secrets could not be read.
	unlearned []string
}

// part is one thing in the archive, for the README.
type part struct{ path, what string }

// scope is what was found so far, on which the rest depends.
type scope struct {
	// owners are the uids of the objects of the three kinds.
	owners map[string]bool
	// namespaces have such objects.
	namespaces []string
	// pods are those whose logs are collected.
	pods []podLogs
}

// collect fills the archive. What cannot be had is named, so it has no error.
func (c *collector) collect(ctx context.Context) {
	s := &scope{owners: map[string]bool{}}
	c.versions(ctx)
	c.problems(ctx)
	c.installation(ctx, s)
	c.kinds(ctx, s)
	for _, namespace := range s.namespaces {
		c.namespaceObjects(ctx, s, namespace)
		c.aggregated(ctx, namespace)
	}
	for _, namespace := range c.allNamespaces(s) {
		c.events(ctx, namespace)
	}
	c.health(ctx, s)
	c.metrics(ctx, s)
	c.logs(ctx, s)
}

// allNamespaces are that of the operator and those of the control planes.
func (c *collector) allNamespaces(s *scope) []string {
	out := []string{c.operatorNamespace}
	for _, namespace := range s.namespaces {
		if namespace != c.operatorNamespace {
			out = append(out, namespace)
		}
	}
	return out
}

// describe names a part in the README.
func (c *collector) describe(path, what string) { c.parts = append(c.parts, part{path, what}) }

// leave names what is not in the archive.
func (c *collector) leave(what string, err error) {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("there was no time left of --timeout")
	case errors.As(err, &status) && apierrors.IsForbidden(err):
		err = fmt.Errorf("you may not read it: %w", err)
	}
	c.left = append(c.left, fmt.Sprintf("%s: %v", what, err))
}

// addText puts a file into the archive.
func (c *collector) addText(path, text string) {
	if err := c.archive.addText(path, text); err != nil {
		c.leave(path, err)
	}
}

// addYAML puts a document into the archive.
func (c *collector) addYAML(path string, document any) {
	if err := c.archive.addDocument(path, document); err != nil {
		c.leave(path, err)
	}
}
