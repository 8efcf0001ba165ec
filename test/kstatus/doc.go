// Package kstatus computes the status of our objects with the library that Flux,
// Helm, kpt and others use to decide whether an object is ready. Only tests
// import it.
package kstatus
