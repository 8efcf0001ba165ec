package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

const definitionsPath = "#/definitions/"

// property is a value of the chart, or a group of values.
type property struct {
	name        string
	description string
	// kind is the displayed type.
	kind string
	// fallback is the default, as JSON, or nil.
	fallback json.RawMessage
	// definition is the name of the definition that describes it, or empty.
	definition string
	// properties are the values of a group, in the order of the file.
	properties []property
}

// node is a node of the schema file.
type node struct {
	Ref         string          `json:"$ref"`
	Description string          `json:"description"`
	Type        json.RawMessage `json:"type"`
	Enum        []string        `json:"enum"`
	Default     json.RawMessage `json:"default"`
	Items       *node           `json:"items"`
	Properties  ordered         `json:"properties"`
	Definitions ordered         `json:"definitions"`
	Additional  json.RawMessage `json:"additionalProperties"`
}

// ordered contains the entries of a JSON object in the order of the file.
type ordered []entry

type entry struct {
	name string
	node node
}

func (o *ordered) UnmarshalJSON(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		e := entry{name: key.(string)}
		if err := decoder.Decode(&e.node); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		*o = append(*o, e)
	}
	return nil
}

// readSchema returns the values that the schema describes. It returns an error for a value without
// a description, and for a group that allows other values.
func readSchema(path string) ([]property, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var root node
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	properties, err := root.group("", root.Definitions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return properties, nil
}

func (n node) group(path string, definitions ordered) ([]property, error) {
	if string(n.Additional) != "false" {
		return nil, fmt.Errorf("%q has properties and does not say \"additionalProperties\": false", path)
	}
	var properties []property
	for _, e := range n.Properties {
		p, err := e.property(path, definitions)
		if err != nil {
			return nil, err
		}
		properties = append(properties, p)
	}
	return properties, nil
}

func (e entry) property(path string, definitions ordered) (property, error) {
	n, definition := e.node, strings.TrimPrefix(e.node.Ref, definitionsPath)
	if n.Ref != "" {
		var err error
		if n, err = definitions.at(n.Ref); err != nil {
			return property{}, err
		}
	}
	path = strings.TrimPrefix(path+"."+e.name, ".")
	if n.Description == "" {
		return property{}, fmt.Errorf("%s has no description", path)
	}
	p := property{name: e.name, description: n.Description, kind: n.kind(), fallback: n.Default, definition: definition}
	if n.Properties == nil {
		return p, nil
	}
	var err error
	p.properties, err = n.group(path, definitions)
	return p, err
}

func (o ordered) at(ref string) (node, error) {
	for _, e := range o {
		if ref == definitionsPath+e.name {
			return e.node, nil
		}
	}
	return node{}, fmt.Errorf("%s is not among the definitions", ref)
}

// kind returns the displayed type: the allowed words, a list of a type, or the type in the schema.
func (n node) kind() string {
	if len(n.Enum) > 0 {
		return "`" + strings.Join(n.Enum, "`, `") + "`"
	}
	names := strings.NewReplacer(`"`, "", "[", "", "]", "", ",", " or ").Replace(strings.ReplaceAll(string(n.Type), " ", ""))
	if names == "array" {
		return "list of " + n.Items.kind()
	}
	return names
}
