// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command schemagen writes a JSON schema from Go types with json tags, and their comments.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
)

func main() {
	title := flag.String("title", "", "title of the schema")
	root := flag.String("root", "", "type of the whole document")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := run(flag.Args(), *title, *root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func run(sources []string, title, root, dst string) error {
	defs := map[string]any{}
	for _, src := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), src, nil, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse %s: %w", src, err)
		}
		if err := define(file, defs); err != nil {
			return err
		}
	}
	schema := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, "$ref": "#/$defs/" + root, "$defs": defs,
	}
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the schema: %w", err)
	}
	return os.WriteFile(dst, append(out, '\n'), 0o644) //nolint:gosec // a source file
}

// define adds the exported struct types of a file to the definitions.
func define(file *ast.File, defs map[string]any) error {
	for _, d := range file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if ok && gen.Tok == token.CONST {
			enumerate(gen, defs)
		}
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, s := range gen.Specs {
			ts, ok := s.(*ast.TypeSpec)
			if !ok || !ts.Name.IsExported() {
				continue
			}
			if kind, ok := ts.Type.(*ast.Ident); ok && kind.Name == "string" {
				defs[ts.Name.Name] = map[string]any{"type": "string", "description": text(gen.Doc)}
			}
			if st, ok := ts.Type.(*ast.StructType); ok {
				def, err := object(st, text(gen.Doc))
				if err != nil {
					return fmt.Errorf("type %s: %w", ts.Name.Name, err)
				}
				defs[ts.Name.Name] = def
			}
		}
	}
	return nil
}

// enumerate adds the constants of a type to its definition. The type is declared above them.
func enumerate(gen *ast.GenDecl, defs map[string]any) {
	for _, s := range gen.Specs {
		value, ok := s.(*ast.ValueSpec)
		if !ok || len(value.Values) != 1 {
			continue
		}
		kind, named := value.Type.(*ast.Ident)
		literal, ok := value.Values[0].(*ast.BasicLit)
		if !named || !ok || literal.Kind != token.STRING {
			continue
		}
		def, known := defs[kind.Name].(map[string]any)
		if !known {
			continue
		}
		enum, _ := def["enum"].([]string)
		def["enum"] = append(enum, strings.Trim(literal.Value, `"`))
	}
}

func object(st *ast.StructType, doc string) (map[string]any, error) {
	props, required := map[string]any{}, []string{}
	for _, f := range st.Fields.List {
		if f.Tag == nil || len(f.Names) != 1 {
			return nil, fmt.Errorf("every field needs one name and a json tag")
		}
		name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		p, err := typeOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		if t := text(f.Doc) + text(f.Comment); t != "" {
			p["description"] = t
		}
		props[name] = p
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	def := map[string]any{"type": "object", "additionalProperties": false, "properties": props}
	if doc != "" {
		def["description"] = doc
	}
	if len(required) > 0 {
		def["required"] = required
	}
	return def, nil
}

func typeOf(e ast.Expr) (map[string]any, error) {
	switch t := e.(type) {
	case *ast.Ident:
		switch t.Name {
		case "string":
			return map[string]any{"type": "string"}, nil
		case "bool":
			return map[string]any{"type": "boolean"}, nil
		case "int", "int64":
			return map[string]any{"type": "integer"}, nil
		case "float64":
			return map[string]any{"type": "number"}, nil
		case "any":
			return map[string]any{}, nil
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name}, nil
	case *ast.SelectorExpr:
		if t.Sel.Name == "Time" {
			return map[string]any{"type": "string", "format": "date-time"}, nil
		}
		return typeOf(t.Sel)
	case *ast.StarExpr:
		return typeOf(t.X)
	case *ast.ArrayType:
		items, err := typeOf(t.Elt)
		if err != nil {
			return nil, err
		}
		return map[string]any{"type": "array", "items": items}, nil
	case *ast.MapType:
		values, err := typeOf(t.Value)
		if err != nil {
			return nil, err
		}
		return map[string]any{"type": "object", "additionalProperties": values}, nil
	}
	return nil, fmt.Errorf("a type that the schema has no word for")
}

func text(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
