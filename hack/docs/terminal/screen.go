package main

import (
	"bufio"
	"slices"
	"strconv"
	"strings"
)

const tabColumns = 8

// cell is one character cell of the screen.
type cell struct {
	char  rune
	style style
}

// style is the style of a character: a color of ECMA-48, 31 to 37 or 91 to 97, or 0 for the
// default.
type style struct {
	colour      int
	bold, faint bool
}

// screen is the screen of a terminal of unlimited height. The zero value is empty and has unlimited
// width.
type screen struct {
	// columns is the width at which lines are wrapped. 0 means no wrapping.
	columns     int
	lines       [][]cell
	row, column int
	style       style
}

// next returns the next character, or a whole escape sequence.
func next(reader *bufio.Reader) (string, error) {
	char, _, err := reader.ReadRune()
	if err != nil || char != '\x1b' {
		return string(char), err
	}
	sequence := []rune{char}
	for {
		char, _, err := reader.ReadRune()
		if err != nil {
			return string(sequence), err
		}
		sequence = append(sequence, char)
		if ended(sequence) {
			return string(sequence), nil
		}
	}
}

// ended reports whether an escape sequence is complete: a control sequence ends with a letter, an
// operating system command ends with a bell character, and others have one letter.
func ended(sequence []rune) bool {
	last := sequence[len(sequence)-1]
	switch {
	case len(sequence) == 2:
		return last != '[' && last != ']'
	case sequence[1] == ']':
		return last == '\a' || last == '\\'
	}
	return last >= '@' && last <= '~'
}

// rewrites reports whether a sequence overwrites the current line.
func rewrites(sequence string) bool {
	return sequence == "\r" || sequence == "\x1b[K"
}

// write writes text with complete escape sequences to the screen.
func (s *screen) write(text string) {
	reader := bufio.NewReader(strings.NewReader(text))
	for {
		sequence, err := next(reader)
		if err != nil {
			return
		}
		s.obey(sequence)
	}
}

func (s *screen) obey(sequence string) {
	switch {
	case strings.HasPrefix(sequence, "\x1b["):
		s.control(sequence[2:len(sequence)-1], sequence[len(sequence)-1])
	case sequence == "\n":
		s.row++
	case sequence == "\r":
		s.column = 0
	case sequence == "\b":
		s.column = max(s.column-1, 0)
	case sequence == "\t":
		s.column += tabColumns - s.column%tabColumns
	case sequence[0] >= ' ':
		s.put([]rune(sequence)[0])
	}
}

// control applies control sequences for colors and for lines that change.
func (s *screen) control(parameters string, command byte) {
	switch command {
	case 'm':
		for parameter := range strings.SplitSeq(parameters, ";") {
			s.style = s.style.with(parameter)
		}
	case 'K':
		if s.row < len(s.lines) && s.column < len(s.lines[s.row]) {
			s.lines[s.row] = s.lines[s.row][:s.column]
		}
	case 'A':
		count, _ := strconv.Atoi(parameters)
		s.row = max(s.row-max(count, 1), 0)
	case 'J':
		s.lines = s.lines[:min(s.row, len(s.lines))]
	}
}

func (t style) with(parameter string) style {
	number, _ := strconv.Atoi(parameter)
	switch {
	case number == 0:
		return style{}
	case number == 1:
		t.bold = true
	case number == 2:
		t.faint = true
	case number == 39:
		t.colour = 0
	case number >= 31 && number <= 37, number >= 91 && number <= 97:
		t.colour = number
	}
	return t
}

func (s *screen) put(char rune) {
	if s.columns > 0 && s.column >= s.columns {
		s.row, s.column = s.row+1, 0
	}
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	line := s.lines[s.row]
	for len(line) <= s.column {
		line = append(line, cell{char: ' '})
	}
	line[s.column] = cell{char, s.style}
	s.lines[s.row] = line
	s.column++
}

// has reports whether a line of the screen contains a text.
func (s *screen) has(text string) bool {
	return slices.ContainsFunc(s.lines, func(line []cell) bool { return strings.Contains(plain(line), text) })
}

func (s *screen) copy() *screen {
	lines := make([][]cell, len(s.lines))
	for row, line := range s.lines {
		lines[row] = slices.Clone(line)
	}
	return &screen{columns: s.columns, lines: lines, row: s.row, column: s.column, style: s.style}
}

func plain(line []cell) string {
	text := make([]rune, len(line))
	for column, cell := range line {
		text[column] = cell.char
	}
	return string(text)
}
