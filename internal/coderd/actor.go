package coderd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// Actor is a Coder user as whom requests are made.
type Actor interface {
	// Username returns the name of the user, for errors.
	Username() string
	// CoderURL returns the address of the user's Coder. The token is sent to no other address.
	CoderURL() string
	// Token returns the user's token. If it fails, requests return its error.
	Token(ctx context.Context) (string, error)
	// Refused is called after Coder rejected the token with 401 Unauthorized.
	Refused(token string)
}

type actorKey struct{}

// WithActor returns a context whose requests that may change Coder are made as that user, by any
// Client. Reads still use the Client's own token. A nil actor removes the actor of ctx.
func WithActor(ctx context.Context, actor Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorFrom returns the actor of a context, or nil.
func ActorFrom(ctx context.Context) Actor {
	actor, _ := ctx.Value(actorKey{}).(Actor)
	return actor
}

// As returns a Client that makes all requests as that user.
func (c *Client) As(actor Actor) *Client {
	as := *c.recorder
	as.actor = actor
	// The transport puts the user's token into each request.
	return newClient(c.sdk.URL, "", &as, c.sdk.HTTPClient.Timeout)
}

// ActsAs returns the username of the Coder user as whom the Client makes all requests. It is empty
// if the Client uses its own token.
func (c *Client) ActsAs() string {
	if c.recorder.actor == nil {
		return ""
	}
	return c.recorder.actor.Username()
}

// Apart returns a context for a separate request. The request uses the Client's own token, and
// skips the checks of WithBeforeChange.
func Apart(ctx context.Context) context.Context {
	return WithBeforeChange(WithActor(ctx, nil), func(context.Context) error { return nil })
}

// ResourceUser is the Resource of Permissions on users.
const ResourceUser = "user"

// Permission is an action on a resource in Coder.
type Permission struct {
	// Resource is workspace, template or user. Action is read, create, update, delete, use, start,
	// stop or ssh.
	Resource, Action string
	// ID is the id of the workspace, template or user. It is zero for one that does not exist yet.
	ID           uuid.UUID
	Owner        uuid.UUID
	Organization uuid.UUID
}

// May reports whether the actor of the context, or else the Client's user, has all permissions. It
// changes nothing.
func (c *Client) May(ctx context.Context, wanted ...Permission) (bool, error) {
	checks := map[string]codersdk.AuthorizationCheck{}
	for i, p := range wanted {
		object := codersdk.AuthorizationObject{ResourceType: codersdk.RBACResource(p.Resource)}
		if p.Resource != ResourceUser {
			// Users belong to no organization.
			object.OrganizationID = p.Organization.String()
		}
		if p.Owner != uuid.Nil {
			object.OwnerID = p.Owner.String()
		}
		if p.ID != uuid.Nil {
			object.ResourceID = p.ID.String()
		}
		checks[fmt.Sprint(i)] = codersdk.AuthorizationCheck{Object: object, Action: codersdk.RBACAction(p.Action)}
	}
	ctx = WithBeforeChange(ctx, func(context.Context) error { return nil })
	// Fields of a later release are ignored.
	answer, err := post[map[string]any](ctx, c, "checking the permissions of the user", "/api/v2/authcheck",
		codersdk.AuthorizationRequest{Checks: checks}, http.StatusOK)
	for i := range wanted {
		if answer[fmt.Sprint(i)] != true {
			return false, err
		}
	}
	return err == nil, err
}

// permissions is the part of a Client that SeesAll uses.
type permissions interface {
	Me(ctx context.Context) (User, error)
	May(ctx context.Context, wanted ...Permission) (bool, error)
}

// SeesAll returns nil if the token may read all objects of a resource: its user must have the role owner, and neither the
// scopes nor the allow list of the token may hide objects. Otherwise IsForbidden is true for the error, and 404 Not Found
// does not mean that an object does not exist.
func SeesAll(ctx context.Context, c permissions, resource string) error {
	refused := &Error{Op: "checking that Coder hides no " + resource, StatusCode: http.StatusForbidden}
	user, err := c.Me(ctx)
	switch {
	case err != nil:
		return err
	case !user.IsOwner():
		refused.Message = fmt.Sprintf("the operator's user %q does not have the role owner; give it the role", user.Username)
		return refused
	}
	may, err := c.May(ctx, Permission{Resource: resource, Action: "read"})
	if err == nil && !may {
		refused.Message = fmt.Sprintf("the scopes or the allow list of the operator's token, a token of user %q, hide objects; "+
			"give the operator a token without them", user.Username)
		return refused
	}
	return err
}

// Absent returns nil if notFound, the error of a request for an object, proves that the object does not exist: Coder knows that it
// was deleted (410 Gone), or the Client's own token may read all objects of the resource.
func (c *Client) Absent(ctx context.Context, resource string, notFound error) error {
	if IsGone(notFound) {
		return nil
	}
	return SeesAll(Apart(ctx), c, resource)
}
