package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
	"github.com/coder-k8s/coder-k8s/internal/version"
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

	// operatorNamespace is the namespace of the operator. namespace limits the collection
	// to the control planes of one namespace; empty means all.
	operatorNamespace, namespace string
	// since limits the age of log lines.
	since time.Duration

	redactor *redaction.Redactor
	archive  *archive
	parts    []part
	left     []string
	// unlearned contains the namespaces whose Secrets could not be read.
	unlearned []string
}

// part is a file or folder of the archive, as described in the README.
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
	c.versions()
	c.problems(ctx)
	c.installation(ctx, s)
	c.kinds(ctx, s)
	for _, namespace := range s.namespaces {
		c.namespaceObjects(ctx, s, namespace)
		c.aggregated(ctx, namespace)
	}
	for _, namespace := range sets.List(sets.New(s.namespaces...).Insert(c.operatorNamespace)) {
		c.events(ctx, namespace)
	}
	c.health(ctx, s)
	c.logs(ctx, s)
}

// describe sets the text of the README about a file, or about a folder if path ends with a slash. The
// README lists only those that the archive contains.
func (c *collector) describe(path, what string) { c.parts = append(c.parts, part{path, what}) }

// leave lists a part that is not in the archive.
func (c *collector) leave(what string, err error) {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("the time of --timeout was over")
	case errors.As(err, &status) && apierrors.IsForbidden(err):
		err = fmt.Errorf("you may not read it: %w", err)
	}
	c.left = append(c.left, fmt.Sprintf("%s: %v", what, err))
}

func (c *collector) addText(path, text string) {
	if err := c.archive.add(path, content{text: text}, len(text)); err != nil {
		c.leave(path, err)
	}
}

// addYAML adds a document, which must be encodable as JSON, to the archive.
func (c *collector) addYAML(path string, value any) {
	var document any
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, &document)
	}
	if err == nil {
		err = c.archive.add(path, content{document: document}, len(data))
	}
	if err != nil {
		c.leave(path, err)
	}
}

// archive holds the collected files in memory until all secrets that must be redacted are
// known. Its size is limited.
type archive struct {
	files map[string]content
	// budget is the number of bytes that may still be added.
	budget int64
}

// content is one file: a text, or a document. A document is converted to YAML after
// redaction, because YAML wraps long lines, which could split a secret.
type content struct {
	text     string
	document any
}

func newArchive(most int64) *archive { return &archive{files: map[string]content{}, budget: most} }

// add adds a file. It returns an error if the archive is full.
func (a *archive) add(name string, c content, size int) error {
	if int64(size) > a.budget {
		return fmt.Errorf("it has %d bytes, and only %d are left of --max-size", size, max(0, a.budget))
	}
	a.budget -= int64(size)
	a.files[name] = c
	return nil
}

// write writes the archive without secrets. The names of files are redacted too. The
// entries are sorted, in a folder with the name of the archive.
func (a *archive) write(to io.Writer, folder string, at time.Time, redactor *redaction.Redactor) error {
	compressed := gzip.NewWriter(to)
	files := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		file := a.files[name]
		text := redactor.Text(file.text)
		if file.document != nil {
			document, err := yaml.Marshal(redactor.Document(file.document))
			if err != nil {
				return fmt.Errorf("writing %s as YAML: %w", name, err)
			}
			text = redactor.Known(string(document))
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, redactor.Text(name)), Size: int64(len(text)), Mode: 0o600, ModTime: at,
		}
		if err := files.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s into the archive: %w", name, err)
		}
		if _, err := io.WriteString(files, text); err != nil {
			return fmt.Errorf("writing %s into the archive: %w", name, err)
		}
	}
	if err := files.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}

// readme returns the README: what is in the archive, what is missing, and what was
// redacted.
func (c *collector) readme() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Support bundle of coder-k8s\n\nCollected at %s by coder-k8s %s.\n\n## What is in it\n\n",
		c.now().UTC().Format(time.RFC3339), version.String())
	for _, p := range c.parts {
		if slices.ContainsFunc(slices.Collect(maps.Keys(c.archive.files)), func(file string) bool { return strings.HasPrefix(file, p.path) }) {
			fmt.Fprintf(&b, "- `%s`: %s\n", p.path, p.what)
		}
	}
	b.WriteString("\n## What could not be collected\n\n")
	if len(c.left) == 0 {
		b.WriteString("Nothing is missing.\n")
	}
	for _, line := range c.left {
		fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(line, "\n", " "))
	}
	if len(c.unlearned) > 0 {
		fmt.Fprintf(&b, "\nThe Secrets of namespace %s could not be read, so their values could not be removed from the rest of the archive.\n"+
			"Check this archive carefully before you share it.\n", strings.Join(c.unlearned, ", "))
	}
	b.WriteString("\n## What was removed\n\n" +
		"`[redacted]` stands in place of\n\n" +
		"- all values of Secrets and ConfigMaps: keys and sizes are kept. The values of Secrets that could be read were\n" +
		"  removed from everything else too, also in encoded form, unless they have fewer than six characters;\n" +
		"- values of variables of the environment, arguments, annotations, HTTP headers, parameters and template variables,\n" +
		"  unless they are known to be harmless; the files of templates;\n" +
		"- what has the form of a secret anywhere: tokens, private keys, passwords in addresses and behind words such as password.\n\n" +
		"Names are kept: of namespaces, objects, users, organizations and hosts. Check the archive before you\n" +
		"share it.\n")
	return b.String()
}
