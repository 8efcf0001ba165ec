// Package applytest makes controller-runtime's fake client take server-side apply as
// an API server does. Tests alone import it.
package applytest
