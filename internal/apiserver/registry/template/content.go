package template

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// content is all that a version is made of.
type content struct {
	file      uuid.UUID
	variables []coderd.Variable
	inherited []plainVariable
	tags      map[string]string
}

// newSalt makes the salt of a template.
func newSalt() (string, error) {
	salt := make([]byte, 24)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	return base64.RawStdEncoding.EncodeToString(salt), nil
}

// hash tells contents apart. It cannot be computed without the salt.
func (c content) hash(salt string) string {
	variables := slices.Clone(c.variables)
	slices.SortFunc(variables, func(a, b coderd.Variable) int { return strings.Compare(a.Name, b.Name) })
	// Marshalling these types does not fail.
	data, _ := json.Marshal(struct {
		File      uuid.UUID
		Variables []coderd.Variable
		Tags      map[string]string
	}{c.file, variables, c.tags})
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil))
}

// versionNameOf gives the name of a version that the user gave none: the same
// content has the same, so it is found again and not built twice.
func versionNameOf(hash string) string { return "k8s-" + hash[:12] }

// tagsOf gives the tags of a new version. Where the spec never had any, those of
// the active version stay, as with Coder's own command line.
func tagsOf(wanted, current aggregationv1alpha1.CoderTemplateSpec, active coderd.TemplateVersion) map[string]string {
	if len(wanted.ProvisionerTags) > 0 || len(current.ProvisionerTags) > 0 {
		return givenTags(wanted.ProvisionerTags)
	}
	return givenTags(active.ProvisionerTags)
}

// givenTags leaves out what Coder adds to the tags of every job.
func givenTags(tags map[string]string) map[string]string {
	out := maps.Clone(tags)
	if out["scope"] == "organization" {
		delete(out, "scope")
	}
	if out["owner"] == "" {
		delete(out, "owner")
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// inheritedFrom gives the values that the active version was built with and that
// the spec does not name, neither now nor before. The values of sensitive ones
// nobody can read.
func inheritedFrom(active []coderd.VersionVariable, wanted, current aggregationv1alpha1.CoderTemplateSpec) []plainVariable {
	named := map[string]bool{}
	for _, spec := range []aggregationv1alpha1.CoderTemplateSpec{wanted, current} {
		for _, v := range spec.Variables {
			named[v.Name] = true
		}
	}
	var out []plainVariable
	for _, v := range active {
		if !v.Sensitive && !named[v.Name] && v.Value != v.Default {
			out = append(out, plainVariable{v.Name, v.Value})
		}
	}
	return out
}

// resolve gives all values with which a version is built.
func (k *Kind) resolve(
	ctx context.Context, namespace string, variables []aggregationv1alpha1.TemplateVariable, inherited []plainVariable,
) ([]coderd.Variable, error) {
	var out []coderd.Variable
	for _, v := range inherited {
		out = append(out, coderd.Variable{Name: v.Name, Value: v.Value})
	}
	for i, v := range variables {
		value := v.Value
		if ref := secretOf(v); ref != nil {
			var err error
			if value, err = k.secretValue(ctx, namespace, *ref, variablesPath.Index(i)); err != nil {
				return nil, err
			}
		}
		out = append(out, coderd.Variable{Name: v.Name, Value: value})
	}
	return out, nil
}

// secretValue reads the value of a variable. A Secret that is not there is the
// user's to mend, so it is a *field.Error.
func (k *Kind) secretValue(
	ctx context.Context, namespace string, ref aggregationv1alpha1.SecretKeySelector, path *field.Path,
) (string, error) {
	path = path.Child("valueFrom", "secretKeyRef")
	if k.config.ReadSecret == nil {
		return "", field.Forbidden(path, "this server cannot read Secrets")
	}
	value, err := k.config.ReadSecret(ctx, namespace, ref.Name, ref.Key)
	switch {
	case apierrors.IsNotFound(err):
		return "", field.NotFound(path, "key "+ref.Key+" of Secret "+ref.Name)
	case apierrors.IsForbidden(err):
		return "", field.Forbidden(path, "the operator may not read Secret "+ref.Name)
	}
	return value, err
}

func secretOf(v aggregationv1alpha1.TemplateVariable) *aggregationv1alpha1.SecretKeySelector {
	if v.ValueFrom == nil {
		return nil
	}
	return v.ValueFrom.SecretKeyRef
}

func usesSecrets(variables []aggregationv1alpha1.TemplateVariable) bool {
	return slices.ContainsFunc(variables, func(v aggregationv1alpha1.TemplateVariable) bool { return secretOf(v) != nil })
}
