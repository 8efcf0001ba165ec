package coderd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/coder/coder/v2/codersdk"
)

// request sends a request for which Coder's own client would read too much of the response, or
// check too little. read receives the body of a response with the expected status.
func (c *Client) request(
	ctx context.Context, method, path string, body any, status int, read func(io.Reader) error, opts ...codersdk.RequestOption,
) error {
	res, err := c.sdk.Request(ctx, method, path, body, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != status {
		return codersdk.ReadBodyAsError(res)
	}
	return read(res.Body)
}

// into decodes the body of a response as JSON.
func into(value any) func(io.Reader) error {
	return func(body io.Reader) error { return json.NewDecoder(body).Decode(value) }
}

// withQuery sets query parameters.
func withQuery(values map[string]string) codersdk.RequestOption {
	return func(r *http.Request) {
		query := r.URL.Query()
		for key, value := range values {
			query.Set(key, value)
		}
		r.URL.RawQuery = query.Encode()
	}
}
