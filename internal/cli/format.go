package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Format is a value of -o.
type Format string

// The formats. Human is the default without -o.
const (
	Human Format = ""
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// AddFlag adds -o with the formats that the command supports.
func (f *Format) AddFlag(cmd *cobra.Command, known ...Format) {
	v := &value{format: f, known: known}
	cmd.Flags().VarP(v, "output", "o", "output format: "+v.choice())
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var all []string
		for _, k := range known {
			all = append(all, string(k))
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
}

type value struct {
	format *Format
	known  []Format
}

// String implements pflag.Value.
func (v *value) String() string { return string(*v.format) }

// Type implements pflag.Value.
func (*value) Type() string { return "format" }

// Set implements pflag.Value.
func (v *value) Set(text string) error {
	if !slices.Contains(v.known, Format(text)) {
		return fmt.Errorf("must be %s", v.choice())
	}
	*v.format = Format(text)
	return nil
}

func (v *value) choice() string {
	var all []string
	for _, k := range v.known {
		all = append(all, string(k))
	}
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// Structured reports whether the format is for programs.
func (f Format) Structured() bool { return f == JSON || f == YAML }

// Write writes an answer in a structured format.
func (f Format) Write(w io.Writer, answer any) error {
	text, err := json.MarshalIndent(answer, "", "  ")
	if err == nil && f == YAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("writing the output as %s: %w", f, err)
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(text), "\n"))
	return err
}
