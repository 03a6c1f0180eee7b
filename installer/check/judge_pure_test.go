// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDecisionsArePure: what judges facts has no means of reading more of them.
func TestDecisionsArePure(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`^"(context|os|os/.*|net|net/.*|k8s\.io/client-go/.*|.*/errgroup)"$`)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range parsed.Imports {
			require.NotRegexp(t, forbidden, i.Path.Value, file)
		}
	}
}
