// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source parses the project's own source code for tests.
package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Files parses the Go files of folders and their subfolders, except tests. The keys are paths with slashes.
func Files(t *testing.T, dirs ...string) map[string]*ast.File {
	t.Helper()
	out := map[string]*ast.File{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			out[filepath.ToSlash(path)], err = parser.ParseFile(token.NewFileSet(), path, nil,
				parser.SkipObjectResolution)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
