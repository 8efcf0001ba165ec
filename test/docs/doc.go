// Package docs tests the documentation: that links and anchors have targets,
// that each page is in the contents, and that the flags, commands and make
// targets on the pages exist. The site itself is built by make docs.
package docs
