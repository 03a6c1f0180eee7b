// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chapters

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/provider"
)

const (
	root       = "../../.."
	transcript = "testdata/lesson.txt"
)

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

// TestCodeExists: each function that a chapter names is in the file that it names.
func TestCodeExists(t *testing.T) {
	t.Parallel()
	for _, c := range Text.Chapters {
		for _, code := range c.Code {
			if names := functions(t, filepath.Join(root, code.File)); !slices.Contains(names, code.Func) {
				t.Errorf("chapter %s: %s has no function %s", c.Title, code.File, code.Func)
			}
		}
	}
	if slices.Contains(functions(t, "chapters_test.go"), "gone") {
		t.Error("a function that is gone would not be noticed")
	}
}

// functions returns the functions of a file; methods as Type.Method.
func functions(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var names []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			recv := f.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			if generic, ok := recv.(*ast.IndexExpr); ok {
				recv = generic.X
			}
			name = fmt.Sprintf("%s.%s", recv, name)
		}
		names = append(names, name)
	}
	return names
}

// TestTranscript: the recorded run has the shape of the lesson: all chapters in order, and in each of them all claims, commands and
// functions.
func TestTranscript(t *testing.T) {
	t.Parallel()
	run := read(t, transcript)
	if err := Shape(run); err != nil {
		t.Fatalf("%v; record it again: make lesson LESSONFLAGS='--transcript test/lesson/chapters/testdata/lesson.txt'", err)
	}
	claim := Text.Chapters[1].Look[0].Text
	if err := Shape(strings.Replace(run, claim, "", 1)); err == nil || !strings.Contains(err.Error(), claim) {
		t.Errorf("a claim that is missing is not noticed: %v", err)
	}
}

// TestPurposes: calls that only read may come at any time, for example in a drift round; the lesson can say what each of them is for.
func TestPurposes(t *testing.T) {
	t.Parallel()
	for command := range Text.Purposes {
		if !slices.Contains(provider.RequiredCommands, command) {
			t.Errorf("the controller does not call %s", command)
		}
	}
	for _, command := range provider.RequiredCommands {
		if strings.HasPrefix(command, "list") && Text.Purposes[command] == "" {
			t.Errorf("%s has no purpose", command)
		}
	}
}

// TestComplete: six chapters, each with its parts, and no claim shares its ID with another.
func TestComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Text.Chapters {
		if len(c.Look) == 0 || len(c.Try) == 0 || len(c.Code) == 0 {
			t.Errorf("chapter %s: a part is empty", c.Title)
		}
		for _, l := range c.Look {
			if seen[l.ID] {
				t.Errorf("two claims have the ID %s", l.ID)
			}
			seen[l.ID] = true
		}
	}
	assert.Len(t, Text.Chapters, 6)
}
