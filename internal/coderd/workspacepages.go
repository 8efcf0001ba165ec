package coderd

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

const (
	// MaxWorkspacePage is the maximum page size of Client.WorkspacePage.
	MaxWorkspacePage = 1000
	// MaxWorkspaceIDs is the maximum number of ids of WorkspacesByID: with more ids the URL would
	// be too long for some proxies.
	MaxWorkspaceIDs = 100
)

// WorkspacePage is a page of all workspaces, in Coder's order: running ones first, then by owner
// and name. A workspace may therefore move to another page while the pages are read.
type WorkspacePage struct {
	Workspaces []Workspace
	// Count is the total number of workspaces on all pages. A page that is not the last one may
	// still be short, because Coder counts before it removes workspaces that the token may not see.
	Count int
}

// WorkspacePage reads one page of all workspaces. It contains no deleted workspaces.
func (c *Client) WorkspacePage(ctx context.Context, offset, limit int) (WorkspacePage, error) {
	return c.searchWorkspaces(ctx, "listing the workspaces", "", offset, limit)
}

// DisconnectedWorkspaces reads one page of the workspaces that have a disconnected agent. Stopped
// workspaces have no agents.
func (c *Client) DisconnectedWorkspaces(ctx context.Context, offset, limit int) (WorkspacePage, error) {
	return c.searchWorkspaces(ctx, "listing the workspaces with a disconnected agent", "has-agent:disconnected", offset, limit)
}

// WorkspacesByID reads these workspaces, at most MaxWorkspaceIDs. Workspaces that are deleted, or
// that the token may not see, are omitted.
func (c *Client) WorkspacesByID(ctx context.Context, ids []uuid.UUID) ([]Workspace, error) {
	op := fmt.Sprintf("reading %d workspaces", len(ids))
	switch {
	case len(ids) == 0:
		return nil, nil
	case len(ids) > MaxWorkspaceIDs:
		err := fmt.Errorf("at most %d can be read at once", MaxWorkspaceIDs)
		return nil, &Error{Op: op, Message: err.Error(), Err: err}
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = id.String()
	}
	page, err := c.workspacePage(ctx, op, len(ids), map[string]string{"q": "id:" + strings.Join(words, ",")})
	return page.Workspaces, err
}

// WorkspaceCount returns the number of workspaces that are not deleted. It requests a page after
// the last one, which contains only the count, so that Coder does not read the details of any
// workspace.
func (c *Client) WorkspaceCount(ctx context.Context) (int, error) {
	page, err := c.searchWorkspaces(ctx, "counting the workspaces", "", math.MaxInt32, 1)
	return page.Count, err
}

// HasWorkspaces reports whether a workspace matches all terms of a query, for example "owner:ada" or
// "organization:coder template:docker".
func (c *Client) HasWorkspaces(ctx context.Context, query string) (bool, error) {
	page, err := c.searchWorkspaces(ctx, "counting the workspaces with "+query, query, math.MaxInt32, 1)
	return page.Count > 0, err
}

func (c *Client) searchWorkspaces(ctx context.Context, op, query string, offset, limit int) (WorkspacePage, error) {
	limit = max(1, min(limit, MaxWorkspacePage))
	return c.workspacePage(ctx, op, limit, map[string]string{
		"q": query, "offset": strconv.Itoa(max(0, offset)), "limit": strconv.Itoa(limit),
	})
}

func (c *Client) workspacePage(ctx context.Context, op string, limit int, query map[string]string) (WorkspacePage, error) {
	var page WorkspacePage
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, workspacesEndpoint, nil, http.StatusOK, func(_ http.Header, body io.Reader) error {
			var err error
			page, err = decodePage(body, limit)
			return err
		}, withQuery(query))
	})
	if err != nil {
		return WorkspacePage{}, err
	}
	return page, nil
}
