// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"testing"
)

func TestFileIsFresh(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile("../../../../docs/annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Markdown() {
		t.Error("docs/annotations.md is stale: run go generate ./pkg/annotation")
	}
}
