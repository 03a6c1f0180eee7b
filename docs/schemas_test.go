// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/golden"
)

//go:generate go test . -run Schemas -update-docs

var update = flag.Bool("update-docs", false, "write the JSON schemas")

// TestSchemas compares the JSON schemas with the Go types, their json tags and their comments.
func TestSchemas(t *testing.T) {
	for _, s := range []struct {
		file, title, root string
		sources           []string
	}{
		{"ui.schema.json", "What the page of csccm ui shows", "Snapshot", []string{"../pkg/ui/model/model.go"}},
		{"../pkg/simulator/world.schema.json", "World of cloudstack-sim", "World",
			[]string{"../pkg/simulator/world.go"}},
	} {
		defs := definitions{}
		for _, source := range s.sources {
			file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
			require.NoError(t, err)
			defs.add(t, file)
		}

		want, err := json.MarshalIndent(map[string]any{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"title":   s.title,
			"$ref":    "#/$defs/" + s.root,
			"$defs":   defs,
		}, "", "  ")
		require.NoError(t, err)
		golden.File(t, s.file, string(want)+"\n", *update, "make generate")
	}
}

// definitions are schemas by the name of their type.
type definitions map[string]map[string]any

// add adds the exported structs and strings of a file, and its string constants.
func (defs definitions) add(t *testing.T, file *ast.File) {
	t.Helper()
	for _, d := range file.Decls {
		gen, _ := d.(*ast.GenDecl)
		if gen == nil {
			continue
		}

		for _, spec := range gen.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				kind, _ := s.Type.(*ast.Ident)
				if gen.Tok != token.CONST || kind == nil || defs[kind.Name] == nil || len(s.Values) != 1 {
					continue
				}

				if literal, ok := s.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					enum, _ := defs[kind.Name]["enum"].([]string)
					defs[kind.Name]["enum"] = append(enum, strings.Trim(literal.Value, `"`))
				}

			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}

				switch is := s.Type.(type) {
				case *ast.Ident:
					if is.Name == "string" {
						defs[s.Name.Name] = map[string]any{"type": "string", "description": comment(gen.Doc)}
					}
				case *ast.StructType:
					defs[s.Name.Name] = object(t, is, comment(gen.Doc))
				}
			}
		}
	}
}

func object(t *testing.T, st *ast.StructType, doc string) map[string]any {
	t.Helper()
	props, required := map[string]any{}, []string{}
	for _, f := range st.Fields.List {
		require.True(t, f.Tag != nil && len(f.Names) == 1, "every field needs one name and a json tag: %s", doc)
		name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		p := typeOf(t, f.Type)
		if text := comment(f.Doc) + comment(f.Comment); text != "" {
			p["description"] = text
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

	return def
}

var types = map[string]string{
	"string":  "string",
	"bool":    "boolean",
	"int":     "integer",
	"int64":   "integer",
	"float64": "number",
}

func typeOf(t *testing.T, e ast.Expr) map[string]any {
	t.Helper()
	switch is := e.(type) {
	case *ast.Ident:
		switch {
		case is.Name == "any":
			return map[string]any{}
		case types[is.Name] != "":
			return map[string]any{"type": types[is.Name]}
		}
		return map[string]any{"$ref": "#/$defs/" + is.Name}
	case *ast.SelectorExpr:
		if is.Sel.Name == "Time" {
			return map[string]any{"type": "string", "format": "date-time"}
		}
		return typeOf(t, is.Sel)
	case *ast.StarExpr:
		return typeOf(t, is.X)
	case *ast.ArrayType:
		return map[string]any{"type": "array", "items": typeOf(t, is.Elt)}
	case *ast.MapType:
		return map[string]any{"type": "object", "additionalProperties": typeOf(t, is.Value)}
	}

	require.Fail(t, "a type that the schema has no word for")
	return nil
}

func comment(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
