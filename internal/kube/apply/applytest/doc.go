// Package applytest makes controller-runtime's fake client handle server-side apply like an API
// server. Only tests import it.
package applytest
