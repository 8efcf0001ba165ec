package templatecheck

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

// start checks whether the test can start, and records that it does.
func (p *pass) start(ctx context.Context) error {
	settings := p.controlPlane.Spec.TemplateTests
	if settings == nil {
		return p.notConfigured()
	}
	template, version, err := p.version(ctx)
	if err != nil {
		return err
	}
	p.test.Status.VersionID, p.test.Status.VersionName = version.ID.String(), version.Name
	owner, err := p.owner(ctx, settings, template.OrganizationID)
	if err != nil {
		return err
	}
	if free, err := p.acquire(ctx, int(settings.MaxConcurrent)); err != nil || !free {
		return cmp.Or[error](err, ensure.Waits(coderv1alpha1.ReasonTooManyTests, 2*pollInterval,
			"%d tests of CoderControlPlane %q have a workspace, which is the most that its spec.templateTests.maxConcurrent allows",
			settings.MaxConcurrent, p.controlPlane.Name))
	}
	if err := p.mayUse(ctx, owner, template); err != nil {
		p.started(p.test)
		return err
	}
	p.test.Status.OwnerName, p.test.Status.WorkspaceName = owner.Username, workspaceName(p.test.UID)
	p.test.Status.StartTime, p.first = &metav1.Time{Time: p.now}, true
	p.waiting(ensure.Waits(coderv1alpha1.ReasonBuilding, 0, "the workspace is being requested"))
	if err := p.write(ctx); err != nil {
		p.started(p.test)
		return err
	}
	return nil
}

func (p *pass) notConfigured() error {
	return ensure.Waits(coderv1alpha1.ReasonTemplateTestsNotConfigured, framework.PollInterval,
		"CoderControlPlane %q allows no tests; set its spec.templateTests", p.controlPlane.Name)
}

// tokenLifetime is how long the token with which the operator asks for the owner's permissions is valid at most.
const tokenLifetime = 5 * time.Minute

// acquire reports whether the test may have a workspace now. The tests that have waited for longer are first.
func (p *pass) acquire(ctx context.Context, limit int) (bool, error) {
	all := &coderv1alpha1.CoderTemplateTestList{}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.kit.Client.List(ctx, all, client.InNamespace(p.test.Namespace)); err != nil {
		return false, fmt.Errorf("listing the tests: %w", err)
	}
	used := 0
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID == p.test.UID || other.Spec.ControlPlaneRef != p.test.Spec.ControlPlaneRef {
			continue
		}
		waits := reasonOf(other, coderv1alpha1.ConditionReady) == coderv1alpha1.ReasonTooManyTests && other.DeletionTimestamp == nil
		first := waits && framework.Older(other, p.test)
		if p.starting[other.UID] || hasWorkspace(other) || first {
			used++
		}
	}
	if used >= limit {
		return false, nil
	}
	p.starting[p.test.UID] = true
	return true, nil
}

// started records that the cache shows that the test has started, or that it has not.
func (r *Reconciler) started(test *coderv1alpha1.CoderTemplateTest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.starting, test.UID)
}

// hasWorkspace reports whether a test may have a workspace in Coder.
func hasWorkspace(test *coderv1alpha1.CoderTemplateTest) bool {
	return test.Status.StartTime != nil && !meta.IsStatusConditionTrue(test.Status.Conditions, coderv1alpha1.ConditionWorkspaceDeleted)
}

// version finds the template and the version to test.
func (p *pass) version(ctx context.Context) (template coderd.Template, version coderd.TemplateVersion, err error) {
	notFound := func(format string, args ...any) error {
		return ensure.Waits(coderv1alpha1.ReasonTemplateNotFound, framework.PollInterval, format, args...)
	}
	orgName, name, _ := strings.Cut(p.test.Spec.Template, ".")
	org, err := p.client.OrganizationByName(ctx, orgName)
	if err == nil {
		template, err = p.client.TemplateByName(ctx, org.ID, name)
	}
	switch {
	case coderd.IsNotFound(err):
		return template, version, notFound("Coder has no template %q in organization %q", name, orgName)
	case err != nil:
		return template, version, waits(err)
	}
	switch wanted := p.test.Spec.Version; {
	case wanted.Name != "":
		versions, err := p.client.AllTemplateVersions(ctx, template.ID)
		i := slices.IndexFunc(versions, func(v coderd.TemplateVersion) bool { return v.Name == wanted.Name })
		switch {
		case err != nil:
			return template, version, waits(err)
		case i < 0:
			return template, version, notFound("template %q has no version %q", p.test.Spec.Template, wanted.Name)
		}
		version = versions[i]
	default:
		id := template.ActiveVersionID
		if wanted.ID != "" {
			id, _ = uuid.Parse(wanted.ID)
		}
		version, err = p.client.TemplateVersion(ctx, id)
		if coderd.IsNotFound(err) || err == nil && (version.TemplateID == nil || *version.TemplateID != template.ID) {
			return template, version, notFound("template %q has no version with the id %s", p.test.Spec.Template, id)
		}
	}
	if err != nil {
		return template, version, waits(err)
	}
	return template, version, usable(version)
}

// usable returns nil if workspaces can be created from a version.
func usable(v coderd.TemplateVersion) error {
	switch {
	case v.Archived:
		return ensure.Fails(coderv1alpha1.ReasonTemplateVersionUnusable, 0, "version %q is archived", v.Name)
	case v.Status == "pending", v.Status == "running":
		return ensure.Waits(coderv1alpha1.ReasonTemplateVersionImporting, pollInterval, "version %q is being built (%s)", v.Name, v.Status)
	case v.Status != "succeeded":
		return ensure.Fails(coderv1alpha1.ReasonTemplateVersionUnusable, 0, "the build of version %q ended as %s: %s", v.Name, v.Status,
			cmp.Or(v.Error, "Coder gave no reason"))
	}
	return nil
}

// owner returns the Coder user that owns the workspace, if the user may own it.
func (p *pass) owner(ctx context.Context, settings *coderv1alpha1.TemplateTestsSpec, organization uuid.UUID) (coderd.User, error) {
	name := settings.OwnerUsername
	notEligible := func(format string, args ...any) error { return notEligible(name, fmt.Sprintf(format, args...)) }
	user, err := p.client.UserByName(ctx, name)
	if coderd.IsNotFound(err) && settings.CreateOwner {
		if user, err = p.createOwner(ctx, name); err != nil && !coderd.IsUnreachable(err) {
			return user, notEligible("it does not exist, and Coder refuses to create it: %s", err)
		}
	}
	if coderd.IsNotFound(err) {
		return user, notEligible("it does not exist; create it, or set spec.templateTests.createOwner of CoderControlPlane %q", p.controlPlane.Name)
	}
	if err == nil {
		user, err = p.client.UserByID(ctx, user.ID)
	}
	if err == nil && settings.CreateOwner && user.Email != ownerEmail(name) {
		return user, notEligible("it exists, and the operator did not create it; choose another name, or set createOwner to false to use it nevertheless")
	}
	if err == nil && user.Status == "dormant" && settings.CreateOwner && user.LastSeenAt.IsZero() && len(user.Roles) == 0 {
		// Coder creates users as dormant, and refuses the agents of their workspaces.
		if err = p.client.SetSuspended(ctx, user, false); err == nil {
			user, err = p.client.UserByID(ctx, user.ID)
		}
	}
	if err != nil {
		return user, waits(err)
	}
	if problem := ineligible(user, name, organization); problem != "" {
		return user, notEligible("%s", problem)
	}
	return user, nil
}

func notEligible(name, why string) error {
	return ensure.Waits(coderv1alpha1.ReasonOwnerNotEligible, framework.PollInterval, "user %q cannot own the workspace of the test: %s", name, why)
}

// mayUse returns nil if the owner may use the template. Coder checks that only for the account that requests a workspace, which is the
// operator's. So the operator asks with a token of the owner, which it revokes at once and which is only in the memory of this process.
func (p *pass) mayUse(ctx context.Context, owner coderd.User, template coderd.Template) error {
	id := owner.ID.String()
	token, err := p.client.CreateToken(coderd.WithBeforeChange(ctx, p.current), id,
		coderd.TokenRequest{Name: "coder-k8s-test-" + strings.ToLower(rand.Text()[:12]), Lifetime: tokenLifetime})
	if err != nil {
		return waits(err)
	}
	// If this fails, the token expires.
	defer func() { _ = p.client.DeleteToken(context.WithoutCancel(ctx), id, token.ID) }()
	may, err := p.client.As(asOwner{owner.Username, p.client.URL(), token.Value}).May(ctx,
		coderd.Permission{Resource: "template", Action: "use", ID: template.ID, Organization: template.OrganizationID})
	switch {
	case err != nil:
		return waits(err)
	case !may:
		return notEligible(owner.Username, fmt.Sprintf("it may not use the template %q; give it the permission in Coder", p.test.Spec.Template))
	}
	return nil
}

// asOwner implements coderd.Actor with one token.
type asOwner struct{ username, url, token string }

func (a asOwner) Username() string                      { return a.username }
func (a asOwner) CoderURL() string                      { return a.url }
func (a asOwner) Token(context.Context) (string, error) { return a.token, nil }
func (asOwner) Refused(string)                          {}

// ineligible returns why a user cannot own the workspace of a test, or an empty string.
func ineligible(user coderd.User, name string, organization uuid.UUID) string {
	roles := slices.Clone(user.Roles)
	for _, more := range user.OrganizationRoles {
		roles = append(roles, more...)
	}
	slices.Sort(roles)
	switch {
	case !strings.EqualFold(user.Username, name):
		return "Coder has no user of that name"
	case len(roles) > 0:
		return fmt.Sprintf("it has the roles %s; remove them, or name another user in spec.templateTests", strings.Join(slices.Compact(roles), ", "))
	case user.Status != "active":
		return fmt.Sprintf("it is %s; activate it in Coder", user.Status)
	case !slices.Contains(user.OrganizationIDs, organization):
		return "it is not a member of the organization of the template; add it in Coder"
	}
	return ""
}

// ownerEmail returns the email address of a user that the operator creates. Coder's users cannot change their address.
func ownerEmail(name string) string { return strings.ToLower(name) + "@" + access.EmailDomain }

// createOwner creates the user, as a member of the default organization only: the author of the first test does not choose what the
// user may use. Nobody knows its password. Some Coders permit no passwords, so the user then has none.
func (p *pass) createOwner(ctx context.Context, name string) (coderd.User, error) {
	organization, err := p.client.OrganizationByName(ctx, coderd.DefaultOrganization)
	if err != nil {
		return coderd.User{}, err
	}
	user := coderd.NewUser{
		Username: name, Email: ownerEmail(name), Name: "Tests of templates", Password: rand.Text() + "a-0",
		OrganizationIDs: []uuid.UUID{organization.ID},
	}
	ctx = coderd.WithBeforeChange(ctx, p.current)
	made, err := p.client.CreateUser(ctx, user)
	if coderd.IsForbidden(err) {
		user.Password, user.LoginType = "", "none"
		made, err = p.client.CreateUser(ctx, user)
	}
	return made, err
}

// create requests the workspace, or finds out whether an earlier request created it.
func (p *pass) create(ctx context.Context) error {
	status := &p.test.Status
	found, err := p.client.WorkspaceByName(ctx, status.OwnerName, status.WorkspaceName)
	if err == nil {
		// An earlier request created it.
		ours, err := p.ours(ctx, found)
		if err != nil {
			return err
		}
		if !ours {
			return ensure.Fails(coderv1alpha1.ReasonWorkspaceNameConflict, 0,
				"user %q has a workspace %q that the operator did not create for this test; it is left alone", found.OwnerName, found.Name)
		}
		p.test.Status.WorkspaceID = found.ID.String()
		return p.write(ctx)
	}
	if !coderd.IsNotFound(err) {
		return waits(err)
	}
	request := coderd.NewWorkspace{Name: status.WorkspaceName}
	if request.TemplateVersionID, err = uuid.Parse(status.VersionID); err != nil {
		return fmt.Errorf("status.versionID: %w", err)
	}
	for _, parameter := range p.test.Spec.Parameters {
		request.Parameters = append(request.Parameters, coderd.Parameter{Name: parameter.Name, Value: parameter.Value})
	}
	if request.PresetID, err = p.preset(ctx, request.TemplateVersionID); err != nil {
		return err
	}
	if !p.first {
		if err := p.stillEligible(ctx, request.TemplateVersionID); err != nil {
			return err
		}
	}
	made, err := p.client.CreateWorkspace(coderd.WithBeforeChange(ctx, p.current), status.OwnerName, request)
	_, answered := errors.AsType[*coderd.Error](err)
	switch {
	case err == nil:
		status.WorkspaceID = made.ID.String()
		p.waiting(ensure.Waits(coderv1alpha1.ReasonBuilding, 0, "Coder builds the workspace"))
		return p.write(ctx)
	case !answered:
		return err
	case coderd.IsUnreachable(err), coderd.IsConflict(err):
		p.first = false
		return ensure.Waits(coderv1alpha1.ReasonConfirmingCreate, pollInterval, "it is not known whether Coder created the workspace: %s", err)
	case coderd.IsRateLimited(err), coderd.IsUnauthorized(err):
		return waits(err)
	}
	return ensure.Fails(coderv1alpha1.ReasonWorkspaceRefused, 0, "Coder refused to create the workspace: %s", err)
}

// stillEligible checks the owner and the version again before another request for the workspace.
func (p *pass) stillEligible(ctx context.Context, id uuid.UUID) error {
	if p.controlPlane.Spec.TemplateTests == nil {
		return p.notConfigured()
	}
	version, err := p.client.TemplateVersion(ctx, id)
	var template coderd.Template
	if err == nil && version.TemplateID != nil {
		template, err = p.client.Template(ctx, *version.TemplateID)
	}
	if err != nil {
		return waits(err)
	}
	if err := usable(version); err != nil {
		return err
	}
	owner, err := p.owner(ctx, &coderv1alpha1.TemplateTestsSpec{OwnerUsername: p.test.Status.OwnerName}, template.OrganizationID)
	if err != nil {
		return err
	}
	return p.mayUse(ctx, owner, template)
}

// preset returns the id of the preset of the spec, or uuid.Nil if there is none in it.
func (p *pass) preset(ctx context.Context, version uuid.UUID) (uuid.UUID, error) {
	name := p.test.Spec.Preset
	if name == "" {
		return uuid.Nil, nil
	}
	presets, err := p.client.VersionPresets(ctx, version)
	if err != nil {
		return uuid.Nil, waits(err)
	}
	var names []string
	for _, preset := range presets {
		if preset.Name == name {
			return preset.ID, nil
		}
		names = append(names, preset.Name)
	}
	return uuid.Nil, ensure.Fails(coderv1alpha1.ReasonWorkspaceRefused, 0, "version %q has no preset %q; it has %q", p.test.Status.VersionName, name, names)
}

// ours reports whether the operator created a workspace for this test: its own account started the owner's first build, from the
// tested version.
func (p *pass) ours(ctx context.Context, w coderd.Workspace) (bool, error) {
	first, err := p.firstBuild(ctx, w)
	if err != nil {
		return false, err
	}
	me, err := p.client.Me(ctx)
	if err != nil {
		return false, waits(err)
	}
	return first.InitiatorID == me.ID && first.TemplateVersionID.String() == p.test.Status.VersionID, nil
}

// firstBuild returns the build with which the owner got the workspace: build 1, or build 2 of a workspace that Coder had built in
// advance for a preset.
func (p *pass) firstBuild(ctx context.Context, w coderd.Workspace) (coderd.Build, error) {
	first, err := p.client.WorkspaceBuildByNumber(ctx, w, 1)
	if err == nil && first.InitiatorID == coderd.PrebuildsUser {
		first, err = p.client.WorkspaceBuildByNumber(ctx, w, 2)
	}
	if err != nil {
		return first, waits(err)
	}
	return first, nil
}
