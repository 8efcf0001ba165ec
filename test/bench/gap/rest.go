package main

import (
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func withSerializer(config *rest.Config) *rest.Config {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return config
}
