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
	// MaxWorkspacePage is the largest limit of WorkspacePage.
	MaxWorkspacePage = 1000
	// MaxWorkspaceIDs is how many workspaces WorkspacesByID reads: more would not
	// fit into an address that every proxy takes.
	MaxWorkspaceIDs = 100
)

// WorkspacePage is a part of all workspaces, sorted as Coder does: those that run
// first, then by owner and name. So a workspace may move to another page while
// they are read.
type WorkspacePage struct {
	Workspaces []Workspace
	// Count is how many there are on all pages together. A page may be short
	// although it is not the last one, because Coder counts before it leaves out
	// what the token must not see.
	Count int
}

// WorkspacePage reads one page of all workspaces. Deleted ones are never in it.
func (c *Client) WorkspacePage(ctx context.Context, offset, limit int) (WorkspacePage, error) {
	limit = max(1, min(limit, MaxWorkspacePage))
	return c.workspacePage(ctx, "listing the workspaces", limit, map[string]string{
		"q": "", "offset": strconv.Itoa(max(0, offset)), "limit": strconv.Itoa(limit),
	})
}

// DisconnectedWorkspaces reads one page of the workspaces that have an agent from which
// Coder no longer hears. Stopped workspaces have no agents.
func (c *Client) DisconnectedWorkspaces(ctx context.Context, offset, limit int) (WorkspacePage, error) {
	limit = max(1, min(limit, MaxWorkspacePage))
	return c.workspacePage(ctx, "listing the workspaces with a disconnected agent", limit, map[string]string{
		"q": "has-agent:disconnected", "offset": strconv.Itoa(max(0, offset)), "limit": strconv.Itoa(limit),
	})
}

// WorkspacesByID reads these workspaces, at most MaxWorkspaceIDs. Those that are
// deleted, or that the token must not see, are left out.
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

// WorkspaceCount counts the workspaces that are not deleted, as WorkspacePage
// does. It asks for a page behind all others, which has the count alone: Coder
// does not have to look for what belongs to the workspaces of a page.
func (c *Client) WorkspaceCount(ctx context.Context) (int, error) {
	page, err := c.workspacePage(ctx, "counting the workspaces", 1, map[string]string{
		"q": "", "offset": strconv.Itoa(math.MaxInt32), "limit": "1",
	})
	return page.Count, err
}

func (c *Client) workspacePage(ctx context.Context, op string, limit int, query map[string]string) (WorkspacePage, error) {
	var page WorkspacePage
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, "/api/v2/workspaces", nil, http.StatusOK, func(body io.Reader) error {
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
