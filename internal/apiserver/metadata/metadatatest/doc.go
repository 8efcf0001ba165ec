// Package metadatatest gives tests a store of records without an API server.
//
// It is the real metadata.Store over a Cluster in memory, so that tests of other
// packages see its behaviour, conflicts included, and can have writes fail at
// any point.
package metadatatest
