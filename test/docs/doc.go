// Package docs holds the tests of what is written for people: that links and
// anchors lead somewhere, that each page is found, and that the flags, commands
// and targets of make that pages name are there. The site itself is built by
// make docs.
package docs
