package coderd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/coder/coder/v2/codersdk"
)

// request makes a request of which Coder's own client would read more, or look at
// less, than is wanted. read gets the body of an answer that has the expected
// status.
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

// into reads the body of an answer as JSON.
func into(value any) func(io.Reader) error {
	return func(body io.Reader) error { return json.NewDecoder(body).Decode(value) }
}

// withQuery sets parameters in the address.
func withQuery(values map[string]string) codersdk.RequestOption {
	return func(r *http.Request) {
		query := r.URL.Query()
		for key, value := range values {
			query.Set(key, value)
		}
		r.URL.RawQuery = query.Encode()
	}
}
