// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

// The error for a file of another program says what kind of file it is, and shows none of its secrets.
func TestReadFileRecognisesOtherFiles(t *testing.T) {
	const head = "[Global]\napi-url = https://h/client/api\napi-key = canary-key\nsecret-key = canary-secret\n"
	cases.Run(t, "testdata/other-files.yaml", func(t *testing.T, _ string, c struct{ Text, More, Says string }) {
		if c.Text == "" {
			c.Text = head + c.More
		}

		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(c.Text), 0o600))
		text, err := access.ReadFile(path)
		if c.Says == "" {
			require.NoError(t, err)
			require.Equal(t, c.Text, string(text))
			return
		}

		require.ErrorContains(t, err, c.Says)
		require.NotContains(t, err.Error(), "canary")
	})
}

func TestSettingsPrintAsNothing(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.Equal(t, "(settings)", fmt.Sprintf(verb, access.Settings{"secret-key": "canary"}))
	}
}
