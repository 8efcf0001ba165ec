package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names from an untrusted Coder cannot be used to write outside of the directory.
func TestNamesOfStrangersStayInTheDirectory(t *testing.T) {
	for _, meta := range []metav1.ObjectMeta{
		{Name: "../../evil"}, {Name: "a/evil"}, {Name: ".."}, {Namespace: "../..", Name: "evil"},
	} {
		root := t.TempDir()
		o := options{output: filepath.Join(root, "a", "b"), allNamespaces: meta.Namespace != ""}
		if err := o.write([]manifest{newManifest("CoderTemplate", "templates", meta)}); err == nil {
			t.Errorf("%s/%s is written", meta.Namespace, meta.Name)
		}
		found, err := filepath.Glob(filepath.Join(root, "*", "*", "*.yaml"))
		above, aboveErr := filepath.Glob(filepath.Join(root, "*.yaml"))
		if err != nil || aboveErr != nil || len(found)+len(above) > 0 {
			t.Errorf("%s/%s: %v %v", meta.Namespace, meta.Name, found, above)
		}
		if _, err := os.Stat(filepath.Join(root, "evil.yaml")); err == nil {
			t.Errorf("%s/%s is written above the directory", meta.Namespace, meta.Name)
		}
	}
}

// Text in a comment never ends the comment.
func TestCommentsStayComments(t *testing.T) {
	m := newManifest("CoderTemplate", "templates", metav1.ObjectMeta{Name: "a.b"})
	for _, end := range []string{"\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029"} {
		m.comments = []string{"one" + end + "kind: Secret"}
		text, err := m.bytes()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# one\n# kind: Secret\napiVersion: ") {
			t.Errorf("%q gives %q", end, text)
		}
	}
}

func TestTheReportOperatesNoTerminal(t *testing.T) {
	r := &report{}
	r.leave("template %s", "\x1b]0;owned\a")
	r.note("template %s", "a\nleft out: all")
	if got, want := r.String(), "left out: template ]0;owned\nnote: template a left out: all\n"; got != want {
		t.Errorf("the report is %q, want %q", got, want)
	}
}
