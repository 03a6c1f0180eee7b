// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"testing"
)

func TestFilesAreFresh(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"docs/annotations.md": Markdown(),
		"charts/cloudstack-ccm/templates/admissionpolicy.yaml":         Policy(),
		"charts/cloudstack-ccm/templates/admissionpolicy-records.yaml": Records(),
	} {
		got, err := os.ReadFile("../../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is stale: run go generate ./pkg/annotation", name)
		}
	}
}
