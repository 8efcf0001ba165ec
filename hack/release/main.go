// Command release creates the parts of a release besides programs and images: archives, SBOMs, the
// license texts of dependencies, and the krew manifest. The same input results in the same bytes on
// every machine: entries are sorted and owned by root, and all times are SOURCE_DATE_EPOCH
// (seconds; 0 if it is not set).
//
//	release archive -out app.tar.gz ./bin/app:app:755 LICENSE:LICENSE
//	release licenses ./bin/app >THIRD_PARTY_LICENSES.txt
//	release sbom -name app -version v1.2.3 -license Apache-2.0 ./bin/app >app.cdx.json
//	release platforms dist/image
//	release krew -version v1.2.3 -base https://example.com/v1.2.3 kubectl-coder_*.tar.gz >coder.yaml
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

const usage = "usage: release archive|licenses|sbom|platforms|krew ..."

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command; %s", usage)
	}
	when, err := buildTime()
	if err != nil {
		return err
	}
	switch args[0] {
	case "archive":
		return runArchive(args[1:], when)
	case "licenses":
		return runLicenses(args[1:], stdout)
	case "sbom":
		return runSBOM(args[1:], when, stdout)
	case "platforms":
		return runPlatforms(args[1:], stdout)
	case "krew":
		return runKrew(args[1:], stdout)
	}
	return fmt.Errorf("unknown command %q; %s", args[0], usage)
}

// buildTime returns the time of the commit, the only time in the output.
func buildTime() (time.Time, error) {
	value := os.Getenv("SOURCE_DATE_EPOCH")
	if value == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: it must be seconds since 1970", value)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
