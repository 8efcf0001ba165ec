package export

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// manifest is one object to apply.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Metadata has only the fields that a person writes.
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     any               `json:"spec"`

	// folder is the folder for the objects of its kind.
	folder string
	// comments are written above the object.
	comments []string
}

func newManifest(kind, folder string, from metav1.ObjectMeta) manifest {
	own := func(all map[string]string) map[string]string {
		out := maps.Clone(all)
		for _, key := range append(aggregationv1alpha1.ControlPlaneLabels(), corev1.LastAppliedConfigAnnotation) {
			delete(out, key)
		}
		return out
	}
	return manifest{
		APIVersion: aggregationv1alpha1.GroupVersion.String(), Kind: kind, folder: folder,
		Metadata: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name, Labels: own(from.Labels), Annotations: own(from.Annotations)},
	}
}

// endsLine reports whether YAML treats a character as the end of a line, and therefore of a
// comment.
func endsLine(r rune) bool { return strings.ContainsRune("\n\r\u0085\u2028\u2029", r) }

// bytes returns the manifest as YAML.
func (m manifest) bytes() ([]byte, error) {
	text, err := yaml.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing %s %s: %w", m.Kind, m.Metadata.Name, err)
	}
	var out bytes.Buffer
	for _, comment := range m.comments {
		for _, line := range strings.FieldsFunc(comment, endsLine) {
			fmt.Fprintf(&out, "# %s\n", line)
		}
	}
	out.Write(text)
	return out.Bytes(), nil
}

// manifests returns the manifests of the selected objects.
func (o *options) manifests(all found, r *report) []manifest {
	slices.SortFunc(all.templates, func(a, b aggregationv1alpha1.CoderTemplate) int { return byName(&a, &b) })
	slices.SortFunc(all.users, func(a, b aggregationv1alpha1.CoderUser) int { return byName(&a, &b) })
	slices.SortFunc(all.workspaces, func(a, b aggregationv1alpha1.CoderWorkspace) int { return byName(&a, &b) })
	masked := map[templateID]map[string]bool{}
	var out []manifest
	for _, u := range all.users {
		if m, ok := userManifest(u, r); ok {
			out = append(out, m)
		}
	}
	for _, t := range all.templates {
		// spec.files has either all text files or none. Binary files declare no parameters.
		if t.Status.Source != nil && len(t.Spec.Files) > 0 {
			masked[newTemplateID(t.ObjectMeta, t.Status.OrganizationName, t.Status.TemplateName)] = declarationsIn(t.Spec.Files).masked
		}
		switch {
		case !o.kinds.templates:
		case t.DeletionTimestamp != nil:
			r.note("CoderTemplate %s: it is being deleted, so there is no manifest", qualified(t.ObjectMeta))
		default:
			out = append(out, templateManifest(t, r))
		}
	}
	for _, ws := range all.workspaces {
		ofOwner := func(owner string) bool { return strings.EqualFold(owner, ws.Status.OwnerName) }
		if len(o.owners) > 0 && !slices.ContainsFunc(o.owners, ofOwner) {
			continue
		}
		template := newTemplateID(ws.ObjectMeta, ws.Status.OrganizationName, ws.Status.TemplateName)
		if m, ok := workspaceManifest(ws, masked[template], r); ok {
			out = append(out, m)
		}
	}
	return out
}

// Only the user who exports may read the files, because a template's source may be confidential.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// write writes the manifests to standard output, or to one file each in a folder. It replaces the
// files of an earlier export. It does not delete the files of objects that no longer exist.
func (o *options) write(manifests []manifest) error {
	for i, m := range manifests {
		text, err := m.bytes()
		if err != nil {
			return err
		}
		if o.output == "-" {
			if i > 0 {
				text = append([]byte("---\n"), text...)
			}
			if _, err := o.streams.Out.Write(text); err != nil {
				return fmt.Errorf("writing to standard output: %w", err)
			}
			continue
		}
		folder := m.folder
		if o.allNamespaces {
			folder = filepath.Join(m.Metadata.Namespace, m.folder)
		}
		if err := cli.WriteBelow(o.output, folder, m.Metadata.Name+".yaml", text, folderMode, fileMode); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	return nil
}

// report is the information for the user besides the manifests. Texts from Coder are cleaned of
// terminal control sequences.
type report struct {
	// leftOut are requested objects and fields that are not in the manifests.
	leftOut []string
	// notes are differences to expect in another Coder.
	notes []string
}

func (r *report) leave(format string, args ...any) {
	r.leftOut = append(r.leftOut, cli.Clean(fmt.Sprintf(format, args...)))
}

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, cli.Clean(fmt.Sprintf(format, args...)))
}

// String returns the report as lines.
func (r *report) String() string {
	var b strings.Builder
	for _, line := range r.leftOut {
		fmt.Fprintf(&b, "left out: %s\n", line)
	}
	for _, line := range r.notes {
		fmt.Fprintf(&b, "note: %s\n", line)
	}
	return b.String()
}

// err returns an error if something was left out.
func (r *report) err(exported int) error {
	switch {
	case len(r.leftOut) == 0:
		return nil
	case exported == 0:
		return errors.New("nothing was exported: " + strings.Join(r.leftOut, "\n"))
	}
	return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("%d manifests were exported; %d things were left out, see above", exported, len(r.leftOut))}
}
