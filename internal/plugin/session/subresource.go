package session

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// ReadSubresource reads a subresource of the aggregated API and decodes it.
func (c *Cluster) ReadSubresource(ctx context.Context, of client.Object, resource, subresource string, into any) error {
	return c.decode(ctx, of.GetNamespace(), resource, of.GetName(), subresource, nil, into)
}

// DeleteSubresource deletes a subresource of the aggregated API, and decodes the answer.
func (c *Cluster) DeleteSubresource(ctx context.Context, of client.Object, resource, subresource string, options *metav1.DeleteOptions, into any) error {
	options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	result := c.Kube.CoreV1().RESTClient().Delete().AbsPath("/apis/"+aggregationv1alpha1.GroupVersion.String()).
		Namespace(of.GetNamespace()).Resource(resource).Name(of.GetName()).SubResource(subresource).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx)
	// Unlike the error of Raw, this error contains the message of the response.
	if err := result.Error(); err != nil {
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
