// Package whoami implements kubectl coder whoami, which shows the Coder user of the caller in each
// Coder, and the reason.
package whoami
