package coderd

import (
	"context"
	"fmt"
	"time"
)

// BuildInfo is what a Coder says about itself to anybody.
type BuildInfo struct {
	// Version, for example v2.30.0+1a2b3c4.
	Version string
	// DeploymentID stays the same for as long as the database lives.
	DeploymentID string
}

// BuildInfo reads version and identity. It needs no token.
func (c *Client) BuildInfo(ctx context.Context) (BuildInfo, error) {
	var out BuildInfo
	err := c.callWithoutToken(ctx, "reading the version of Coder", func(ctx context.Context) error {
		info, err := c.sdk.BuildInfo(ctx)
		out = BuildInfo{Version: boundName(info.Version), DeploymentID: boundName(info.DeploymentID)}
		return err
	})
	return out, err
}

// MaxTokenLifetime is the longest life that Coder gives a token of this user.
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
