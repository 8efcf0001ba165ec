package coderd

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// ProvisionerDaemon is one provisioner of an organization.
type ProvisionerDaemon struct {
	ID   uuid.UUID
	Name string
	// KeyID and KeyName identify the key with which it registered. Coder's built-in provisioners
	// have a reserved name here, and so have those with a pre-shared key: psk.
	KeyID   uuid.UUID
	KeyName string
	// Busy reports that it runs a job.
	Busy       bool
	Version    string
	Tags       map[string]string
	LastSeenAt time.Time
}

// ProvisionerDaemons lists the registered provisioners of an organization. The AGPL build supports
// this as well.
func (c *Client) ProvisionerDaemons(ctx context.Context, org uuid.UUID) ([]ProvisionerDaemon, error) {
	var out []ProvisionerDaemon
	err := c.call(ctx, fmt.Sprintf("listing the provisioners of organization %s", org), func(ctx context.Context) error {
		// The default limit of Coder is 50.
		daemons, err := c.sdk.OrganizationProvisionerDaemons(ctx, org, &codersdk.OrganizationProvisionerDaemonsOptions{Limit: math.MaxInt32})
		for _, d := range daemons {
			daemon := ProvisionerDaemon{
				ID: d.ID, Name: boundName(d.Name), KeyID: d.KeyID, Busy: d.CurrentJob != nil, Version: boundName(d.Version), Tags: d.Tags, LastSeenAt: d.LastSeenAt.Time,
			}
			if d.KeyName != nil {
				daemon.KeyName = boundName(*d.KeyName)
			}
			out = append(out, daemon)
		}
		return err
	})
	return out, err
}
