package tools

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// listOutput is one page of a list.
type listOutput[D any] struct {
	Items      []D    `json:"items"`
	Truncated  bool   `json:"truncated"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// onePage cuts the requested page out of items, which the API returned. next is the API's
// continue token.
func onePage[T, D any](page toolset.Page, items []T, next string, describe func(*T) D) listOutput[D] {
	shown, cursor := toolset.Cut(page, items, next)
	out := listOutput[D]{Items: make([]D, 0, len(shown)), NextCursor: cursor, Truncated: cursor != ""}
	for i := range shown {
		out.Items = append(out.Items, describe(&shown[i]))
	}
	return out
}

// readPage reads one page of the operator's custom resources into list. items returns the
// objects of list after the read.
func readPage[T, D any](
	ctx context.Context, call *toolset.Call, in listInput, plural string,
	list client.ObjectList, items func() []T, describe func(*T) D,
) (listOutput[D], error) {
	page, err := toolset.NewPage(in.Limit, in.Cursor)
	if err != nil {
		return listOutput[D]{}, err
	}
	if err := call.Kube.List(ctx, list, page.Options(in.Namespace)); err != nil {
		return listOutput[D]{}, coderError("list", plural, in.Namespace, "", err)
	}
	return onePage(page, items(), list.GetContinue(), describe), nil
}
