// Package upgrade decides whether the pods of a Coder deployment may get another image, and whether
// the old pods must stop first. The controller and kubectl coder upgrade plan use the same decision.
// It also decides whether the backup of an upgrade can be stored, and knows which versions of Coder
// this release supports. All functions but TryDestination are pure.
//
// Coder migrates its database when it starts, and never back: a Coder that is older than the schema
// does not start. The schema changes with a minor version, and the version of an image is known only
// from its tag. So the decision compares the version that last answered with the tag of the wanted
// image. As long as no Coder has answered, there is no proof that the database has a schema, and
// every image is allowed.
package upgrade
