// Package kstatus asks the library with which Flux, Helm, kpt and the like
// decide whether an object is done what it makes of ours. Tests alone import it.
package kstatus
