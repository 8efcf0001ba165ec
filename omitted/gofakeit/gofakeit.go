// Package gofakeit has the names that Coder's client library needs to compile. See ../README.md.
package gofakeit

// Faker returns no names.
type Faker struct{}

// New returns a Faker.
func New(uint64) *Faker { return &Faker{} }

// AdjectiveDescriptive returns "".
func (*Faker) AdjectiveDescriptive() string { return "" }

// LastName returns "".
func (*Faker) LastName() string { return "" }
