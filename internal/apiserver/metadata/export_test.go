package metadata

// ResourceKey is where the resource of a record is.
var ResourceKey = resourceKey
