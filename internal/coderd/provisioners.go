package coderd

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// MaxProvisionerKeyName is the maximum length of a provisioner key's name.
const MaxProvisionerKeyName = 64

// ProvisionerKey is a key with which provisioner daemons register for an organization.
type ProvisionerKey struct {
	ID             uuid.UUID
	OrganizationID uuid.UUID
	// Name is unique in the organization. Coder stores it in lower case.
	Name string
	// Tags select the jobs that the daemons run.
	Tags      map[string]string
	CreatedAt time.Time
}

func newProvisionerKey(k codersdk.ProvisionerKey) ProvisionerKey {
	return ProvisionerKey{ID: k.ID, OrganizationID: k.OrganizationID, Name: boundName(k.Name), Tags: k.Tags, CreatedAt: k.CreatedAt}
}

// CheckProvisionerKeyName returns an error if the name is invalid for a new provisioner key.
func CheckProvisionerKeyName(name string) error {
	reserved := slices.ContainsFunc(codersdk.ReservedProvisionerKeyNames(), func(s string) bool { return strings.EqualFold(s, name) })
	switch {
	case len(name) > MaxProvisionerKeyName:
		return fmt.Errorf("%q has %d characters, and Coder allows %d", name, len(name), MaxProvisionerKeyName)
	case !plainName.MatchString(name):
		return fmt.Errorf("%q must consist of %s", name, plainNameRule)
	case reserved:
		return fmt.Errorf("%q is one of the names that Coder reserves: %s", name, strings.Join(codersdk.ReservedProvisionerKeyNames(), ", "))
	}
	return nil
}

// ProvisionerKeys lists the keys of an organization, the oldest first, without Coder's own keys.
func (c *Client) ProvisionerKeys(ctx context.Context, org uuid.UUID) ([]ProvisionerKey, error) {
	op := fmt.Sprintf("listing the provisioner keys of organization %s", org)
	return fetchList(ctx, c, op, newProvisionerKey, with(c.sdk.ListProvisionerKeys, org))
}

// CreateProvisionerKey creates a key and returns its text, which Coder returns only once. The error
// is IsConflict if the name exists, in whatever case.
func (c *Client) CreateProvisionerKey(ctx context.Context, org uuid.UUID, name string, tags map[string]string) (string, error) {
	op := fmt.Sprintf("creating provisioner key %q", name)
	if err := CheckProvisionerKeyName(name); err != nil {
		return "", badName(op, err)
	}
	var out string
	err := c.call(ctx, op, func(ctx context.Context) error {
		res, err := c.sdk.CreateProvisionerKey(ctx, org, codersdk.CreateProvisionerKeyRequest{Name: name, Tags: tags})
		out = res.Key
		return err
	})
	return out, err
}

// DeleteProvisionerKey deletes a key by its name, in whatever case. The daemons that registered
// with it are removed and cannot register again.
func (c *Client) DeleteProvisionerKey(ctx context.Context, org uuid.UUID, name string) error {
	op := fmt.Sprintf("deleting provisioner key %q", name)
	if !plainName.MatchString(name) {
		return notThere(op, name, "such names consist of "+plainNameRule)
	}
	return change(ctx, c, op, c.sdk.DeleteProvisionerKey, org, name)
}

// CheckProvisionerKey returns the key that has this text. The error is IsUnauthorized if there is
// none: the key was deleted, or never existed. It needs neither a session token nor a license.
//
// Coder's own client also writes the text into the path, where the log of a proxy would record it.
// Coder reads only the header, so the path contains "self".
func (c *Client) CheckProvisionerKey(ctx context.Context, plaintext string) (ProvisionerKey, error) {
	const op = "asking Coder about a provisioner key"
	if plaintext == "" {
		return ProvisionerKey{}, &Error{Op: op, StatusCode: http.StatusUnauthorized, Message: "the key is empty"}
	}
	var out ProvisionerKey
	err := c.callWithoutToken(ctx, op, func(ctx context.Context) error {
		res, err := c.sdk.RequestWithoutSessionToken(ctx, http.MethodGet, "/api/v2/provisionerkeys/self", nil, func(r *http.Request) {
			r.Header.Set(codersdk.ProvisionerDaemonKey, plaintext)
		})
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return codersdk.ReadBodyAsError(res)
		}
		var key codersdk.ProvisionerKey
		err = json.NewDecoder(res.Body).Decode(&key)
		out = newProvisionerKey(key)
		return err
	})
	if IsInvalid(err) {
		// Coder refuses a text that is too short or too long for a key with another status. The
		// meaning is the same.
		err = &Error{Op: op, StatusCode: http.StatusUnauthorized, Message: "the text is not a provisioner key of this Coder"}
	}
	return out, withoutSecret(err, plaintext)
}

// ProvisionerDaemon is one provisioner of an organization.
type ProvisionerDaemon struct {
	KeyID uuid.UUID `json:"key_id"`
}

// ProvisionerDaemons lists the registered provisioners of an organization. The AGPL build supports
// this as well.
func (c *Client) ProvisionerDaemons(ctx context.Context, org uuid.UUID) ([]ProvisionerDaemon, error) {
	// The default limit of Coder is 50.
	return get[[]ProvisionerDaemon](ctx, c, fmt.Sprintf("listing the provisioners of organization %s", org),
		fmt.Sprintf("/api/v2/organizations/%s/provisionerdaemons", org), map[string]string{"limit": strconv.Itoa(math.MaxInt32)})
}
