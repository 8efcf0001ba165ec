// Package terminal implements the interaction with users while a command runs: colors,
// tables, progress and questions.
//
// Colors and lines that are overwritten are used only on terminals. Other streams, such as
// files or the log of a job, get plain lines. NO_COLOR is supported (https://no-color.org).
// Text from a cluster cannot move the cursor or change colors, because control characters
// are removed from it.
package terminal
