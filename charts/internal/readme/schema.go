// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Schema returns values.schema.json with the description and default of each value from values.yaml, so that editors
// can show them. Everything else in the file is written by hand and unchanged.
func Schema(files fs.FS) ([]byte, error) {
	raw, err := fs.ReadFile(files, "values.yaml")
	if err != nil {
		return nil, err
	}
	sections, err := Sections(raw)
	if err != nil {
		return nil, fmt.Errorf("read values.yaml: %w", err)
	}
	if raw, err = fs.ReadFile(files, "values.schema.json"); err != nil {
		return nil, err
	}
	// Parse the JSON as YAML: yaml.Node keeps the order of keys.
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read values.schema.json: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("read values.schema.json: want an object")
	}
	for _, section := range sections {
		for _, value := range section.Values {
			property := doc.Content[0]
			for key := range strings.SplitSeq(value.Path, ".") {
				if property = lookup(lookup(property, "properties"), key); property == nil {
					return nil, fmt.Errorf("values.schema.json has no %s", value.Path)
				}
			}
			var def yaml.Node
			if err := yaml.Unmarshal([]byte(value.Default), &def); err != nil {
				return nil, fmt.Errorf("default of %s: %w", value.Path, err)
			}
			set(property, "description", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value.Text})
			set(property, "default", def.Content[0])
		}
	}
	var out bytes.Buffer
	if err := write(&out, doc.Content[0]); err != nil {
		return nil, fmt.Errorf("write values.schema.json: %w", err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, out.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("write values.schema.json: %w", err)
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// lookup returns the value of a key, or nil.
func lookup(object *yaml.Node, key string) *yaml.Node {
	if object == nil {
		return nil
	}
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == key {
			return object.Content[i+1]
		}
	}
	return nil
}

// set replaces the value of a key, or appends the key.
func set(object *yaml.Node, key string, value *yaml.Node) {
	if old := lookup(object, key); old != nil {
		*old = *value
		return
	}
	object.Content = append(object.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// write writes a node as JSON and keeps the order of its keys.
func write(out *bytes.Buffer, node *yaml.Node) error {
	switch node.Kind {
	case yaml.MappingNode:
		out.WriteByte('{')
		for i := 0; i < len(node.Content); i += 2 {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := write(out, node.Content[i]); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := write(out, node.Content[i+1]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range node.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := write(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	default:
		var plain any
		if err := node.Decode(&plain); err != nil {
			return err
		}
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(plain)
	}
}
