package coderd

import (
	"context"
	"fmt"
	"time"
)

// BuildInfo is the public information about a Coder deployment.
type BuildInfo struct {
	// Version is the version of Coder, for example v2.30.0+1a2b3c4.
	Version string
	// DeploymentID does not change during the lifetime of the database.
	DeploymentID string
}

// BuildInfo reads the version and the deployment id. It needs no token.
func (c *Client) BuildInfo(ctx context.Context) (BuildInfo, error) {
	var out BuildInfo
	err := c.callWithoutToken(ctx, "reading the version of Coder", func(ctx context.Context) error {
		info, err := c.sdk.BuildInfo(ctx)
		out = BuildInfo{Version: boundName(info.Version), DeploymentID: boundName(info.DeploymentID)}
		return err
	})
	return out, err
}

// MaxTokenLifetime returns the maximum lifetime of a token of this user.
func (c *Client) MaxTokenLifetime(ctx context.Context, user string) (time.Duration, error) {
	op := fmt.Sprintf("reading the longest token lifetime of user %q", user)
	if err := checkNames(op, user); err != nil {
		return 0, err
	}
	var out time.Duration
	err := c.call(ctx, op, func(ctx context.Context) error {
		config, err := c.sdk.GetTokenConfig(ctx, user)
		out = config.MaxTokenLifetime
		return err
	})
	return out, err
}
