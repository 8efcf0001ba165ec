// Package terminal owns what people see and are asked while a command runs:
// colours, tables, progress and questions.
//
// Colours, and lines that are written anew, are for terminals alone. Everything
// else, a file or the log of a job, gets plain lines. NO_COLOR is honoured
// (https://no-color.org). Text that comes from a cluster cannot move the cursor or
// change colours: control characters are taken out of it.
package terminal
