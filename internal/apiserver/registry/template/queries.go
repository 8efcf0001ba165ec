package template

import (
	"net/url"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	frame "github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// addQueriesToScheme registers the conversions of the query parameters of the subresources.
func addQueriesToScheme(s *runtime.Scheme) error {
	if err := s.AddConversionFunc((*url.Values)(nil), (*aggregationv1alpha1.CoderTemplateVersionOptions)(nil),
		func(query, options any, _ conversion.Scope) error {
			into := options.(*aggregationv1alpha1.CoderTemplateVersionOptions)
			return frame.ReadQuery(*query.(*url.Values),
				frame.NumberParameter("limit", &into.Limit),
				frame.TextParameter("after", &into.After),
				frame.BoolParameter("archived", &into.Archived))
		}); err != nil {
		return err
	}
	if err := s.AddConversionFunc((*url.Values)(nil), (*aggregationv1alpha1.CoderTemplateParameterOptions)(nil),
		func(query, options any, _ conversion.Scope) error {
			into := options.(*aggregationv1alpha1.CoderTemplateParameterOptions)
			return frame.ReadQuery(*query.(*url.Values), frame.TextParameter("version", &into.Version))
		}); err != nil {
		return err
	}
	return s.AddConversionFunc((*url.Values)(nil), (*aggregationv1alpha1.CoderTemplateLogOptions)(nil),
		func(query, options any, _ conversion.Scope) error {
			into := options.(*aggregationv1alpha1.CoderTemplateLogOptions)
			return frame.ReadQuery(*query.(*url.Values),
				frame.TextParameter("version", &into.Version),
				frame.BoolParameter("follow", &into.Follow),
				frame.NumberParameter("after", &into.After))
		})
}
