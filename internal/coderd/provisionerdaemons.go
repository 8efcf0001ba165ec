package coderd

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// ProvisionerDaemon is one provisioner that works for an organization.
type ProvisionerDaemon struct {
	ID   uuid.UUID
	Name string
	// KeyID and KeyName are those of the key that it came with. Coder's own
	// provisioners have one of the names that it keeps to itself, as have those
	// with a pre-shared key: psk.
	KeyID   uuid.UUID
	KeyName string
	// Busy says that it works on a job.
	Busy       bool
	Version    string
	Tags       map[string]string
	LastSeenAt time.Time
}

// ProvisionerDaemons lists the provisioners of an organization that are there at
// this moment. The AGPL build has this as well.
func (c *Client) ProvisionerDaemons(ctx context.Context, org uuid.UUID) ([]ProvisionerDaemon, error) {
	var out []ProvisionerDaemon
	err := c.call(ctx, fmt.Sprintf("listing the provisioners of organization %s", org), func(ctx context.Context) error {
		// Without a limit Coder stops at 50.
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
