// Package whoami owns kubectl coder whoami: who the caller is in each Coder, and why.
package whoami
