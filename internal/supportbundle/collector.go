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

// checkFunc checks the installation. It has the signature of installation.Check.
type checkFunc func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error)

// collector collects one bundle.
type collector struct {
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	check   checkFunc
	now     func() time.Time
	tunnel  tunnelFunc

	// operatorNamespace is the namespace of the operator. namespace limits the collection
	// to the control planes of one namespace; empty means all.
	operatorNamespace, namespace string
	// since limits the age of log lines.
	since time.Duration
	// metricsToken is a token with permission to read the operator's metrics. If it is
	// empty, the metrics are left out.
	metricsToken string

	redactor *redaction.Redactor
	archive  *archive
	parts    []part
	left     []string
	// unlearned contains the namespaces whose Secrets could not be read.
	unlearned []string
}

// part is a part of the archive, as listed in the README.
type part struct{ path, what string }

// scope contains the objects that were found so far and that later steps depend on.
type scope struct {
	// owners contains the UIDs of the operator's custom resources and of the objects that
	// they own.
	owners map[string]bool
	// namespaces are the namespaces of these custom resources.
	namespaces []string
	// pods are the pods whose logs are collected.
	pods []podLogs
}

// collect fills the archive. It returns no error: parts that cannot be collected are listed
// in the README.
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

// allNamespaces returns the namespaces of the operator and of the control planes.
func (c *collector) allNamespaces(s *scope) []string {
	out := []string{c.operatorNamespace}
	for _, namespace := range s.namespaces {
		if namespace != c.operatorNamespace {
			out = append(out, namespace)
		}
	}
	return out
}

// describe adds a part to the README.
func (c *collector) describe(path, what string) { c.parts = append(c.parts, part{path, what}) }

// leave lists a part that is not in the archive.
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

// addText adds a text file to the archive.
func (c *collector) addText(path, text string) {
	if err := c.archive.addText(path, text); err != nil {
		c.leave(path, err)
	}
}

// addYAML adds a document to the archive.
func (c *collector) addYAML(path string, document any) {
	if err := c.archive.addDocument(path, document); err != nil {
		c.leave(path, err)
	}
}
