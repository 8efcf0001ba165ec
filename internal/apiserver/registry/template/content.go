package template

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// content holds the inputs of a version.
type content struct {
	file      uuid.UUID
	variables []coderd.Variable
	inherited []plainVariable
	tags      map[string]string
}

// newSalt returns a random salt for a template.
func newSalt() (string, error) {
	salt := make([]byte, 24)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	return base64.RawStdEncoding.EncodeToString(salt), nil
}

// hash returns a hash that identifies a content. It cannot be computed without the salt.
func (c content) hash(salt string) string {
	variables := slices.Clone(c.variables)
	slices.SortFunc(variables, func(a, b coderd.Variable) int { return strings.Compare(a.Name, b.Name) })
	// Marshaling these types cannot fail.
	data, _ := json.Marshal(struct {
		File      uuid.UUID
		Variables []coderd.Variable
		Tags      map[string]string
	}{c.file, variables, c.tags})
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil))
}

// versionNameOf returns the name of a version for which the user set none. Equal contents have
// equal names, so an existing version is found and not built twice.
func versionNameOf(hash string) string { return "k8s-" + hash[:12] }

// tagsOf returns the tags of a new version. If the spec never had tags, those of the active version
// are kept, as Coder's own CLI does.
func tagsOf(wanted, current aggregationv1alpha1.CoderTemplateSpec, active coderd.TemplateVersion) map[string]string {
	if len(wanted.ProvisionerTags) > 0 || len(current.ProvisionerTags) > 0 {
		return givenTags(wanted.ProvisionerTags)
	}
	return givenTags(active.ProvisionerTags)
}

// givenTags removes the tags that Coder adds to every job.
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

// inheritedFrom returns the values of the active version for variables that neither the wanted nor
// the current spec contains. Values of sensitive variables cannot be read and are not inherited.
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

// resolve returns the values of all variables for a build.
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

// secretValue reads the value of a variable from a Secret. If the Secret or the key is missing, the
// user must fix it, so the error is a *field.Error.
func (k *Kind) secretValue(
	ctx context.Context, namespace string, ref aggregationv1alpha1.SecretKeySelector, path *field.Path,
) (string, error) {
	path = path.Child("valueFrom", "secretKeyRef")
	if k.secrets.Read == nil {
		return "", field.Forbidden(path, "this server cannot read Secrets")
	}
	value, err := k.secrets.Read(ctx, namespace, ref.Name, ref.Key)
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

// submit creates a version unless it exists already. The name identifies it: it is derived from the
// content, or was free when it was requested.
func submit(
	ctx context.Context, client *coderd.Client, t coderd.Template, r *release, variables []coderd.Variable,
) (coderd.TemplateVersion, error) {
	v, found, err := findVersion(ctx, client, t.ID, r)
	if err != nil || found {
		return v, err
	}
	created, err := client.CreateTemplateVersion(ctx, t.OrganizationID, newVersion(&t.ID, r, variables))
	if !coderd.IsConflict(err) {
		return created, err
	}
	// An earlier request whose response was lost may have created it.
	if v, found, err := findVersion(ctx, client, t.ID, r); err != nil || found {
		return v, err
	}
	return coderd.TemplateVersion{}, &coderd.Error{
		Op: fmt.Sprintf("creating template version %q", r.Name), StatusCode: 422,
		Message: "an archived version has this name; set another in spec.versionName, or unarchive it",
		Fields:  []coderd.FieldError{{Field: "name", Detail: "an archived version has this name"}},
	}
}

// findVersion returns the version of a release by its name and files.
func findVersion(ctx context.Context, client *coderd.Client, template uuid.UUID, r *release) (coderd.TemplateVersion, bool, error) {
	versions, err := client.TemplateVersions(ctx, template)
	if err != nil {
		return coderd.TemplateVersion{}, false, err
	}
	i := slices.IndexFunc(versions, func(v coderd.TemplateVersion) bool {
		return v.FileID == r.FileID && strings.EqualFold(v.Name, r.Name)
	})
	if i < 0 {
		return coderd.TemplateVersion{}, false, nil
	}
	return versions[i], true, nil
}

func newVersion(template *uuid.UUID, r *release, variables []coderd.Variable) coderd.NewTemplateVersion {
	return coderd.NewTemplateVersion{
		TemplateID: template, FileID: r.FileID, Name: r.Name, Message: r.Message, Tags: r.Tags, Variables: variables,
	}
}

// refusal reports whether Coder refused the request permanently, so that a retry is useless.
func refusal(err error) bool {
	return refusesUser(err) || coderd.IsInvalid(err) || coderd.IsConflict(err) || coderd.IsForbidden(err) || coderd.IsNotFound(err)
}

// refusesUser reports whether the request was refused because of the Coder user who made it.
func refusesUser(err error) bool {
	return apierrors.IsForbidden(err) || coderd.ActedAs(err) != "" && (coderd.IsForbidden(err) || coderd.IsUnauthorized(err) || coderd.IsNotFound(err))
}
