package main

import (
	"fmt"
	"io"
	"strings"
)

// runLicenses writes the license texts of the modules in a program. Most of these licenses require
// that their text is distributed with the binary.
func runLicenses(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: release licenses PROGRAM")
	}
	libraries, err := librariesOf(args[0])
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, licenseTexts(libraries))
	return err
}

func licenseTexts(libraries []library) string {
	var b strings.Builder
	b.WriteString("This program contains the following Go modules, each under its own license.\n")
	for _, l := range libraries {
		name := l.Path
		if name == standardLibrary {
			name = "The Go standard library"
		}
		for _, text := range l.Texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n%[1]s\n\n%[5]s\n", strings.Repeat("=", 80), name, l.Version, text.Name, strings.TrimSpace(text.Content))
		}
	}
	return b.String()
}

// The sentences that identify a license. The first match applies. BSD with two clauses is the one
// with three clauses without its third.
var licenseSentences = []struct{ id, sentence string }{
	{"AGPL-3.0-only", "GNU AFFERO GENERAL PUBLIC LICENSE Version 3"},
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License, version 2.0"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software without"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"CC0-1.0", "CC0 1.0 Universal"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
}

// licenseID returns the SPDX identifier of a license text. It returns an empty string for other
// texts: a notice is not a license.
func licenseID(content string) string {
	words := strings.ToLower(strings.Join(strings.Fields(content), " "))
	for _, l := range licenseSentences {
		if strings.Contains(words, strings.ToLower(l.sentence)) {
			return l.id
		}
	}
	return ""
}
