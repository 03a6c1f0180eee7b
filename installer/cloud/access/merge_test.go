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
)

// The error for a file of another program says what kind of file it is, and shows none of its secrets.
func TestReadFileRecognisesOtherFiles(t *testing.T) {
	t.Parallel()
	const head = "[Global]\napi-url = https://h/client/api\napi-key = canary-key\nsecret-key = canary-secret\n"
	for name, tc := range map[string]struct{ text, says string }{
		"a cloud-config":    {head, ""},
		"one of Leaseweb's": {head + "api-rate-limit-qps = 5\nvm-cache-ttl = 30\n", ""},
		"Windows' lines": {
			"\ufeff[Global]\r\napi-url = https://h/client/api\r\napi-key = a\r\nsecret-key = b\r\n",
			"",
		},
		"a misspelt key": {head + "zonee = z\n", `line 5: unknown key "zonee"; did you mean zone?`},
		"cmk": {
			"prompt = cs\nprofile = localcloud\n\n[localcloud]\nurl = https://h/client/api\napikey = " +
				"canary\nsecretkey = canary\n",
			"cmk",
		},
		"a profile of cmk": {"[localcloud]\nurl = https://h/client/api\napikey = canary\nsecretkey = canary\n",
			"cloudstack.ini"},
		"cs and Ansible": {"[cloudstack]\nendpoint = https://h/client/api\nkey = canary\nsecret = canary\n",
			"cloudstack.ini"},
		"Terraform": {
			"provider \"cloudstack\" {\n  api_url = \"https://h\"\n  secret_key = \"canary\"\n}\n",
			"Terraform",
		},
		"variables": {"api_url = \"https://h\"\napi_key = \"canary\"\nsecret_key = \"canary\"\n",
			"Terraform"},
		"Cluster API's Secret":  {"apiVersion: v1\nkind: Secret\nstringData:\n  api-key: canary\n", "Cluster API"},
		"\\n as two characters": {`[Global]\napi-url = https://h\napi-key = canary\n`, `\n in place of line breaks`},
	} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
		text, err := access.ReadFile(path)
		if tc.says == "" {
			require.NoError(t, err, name)
			require.Equal(t, tc.text, string(text), name)
			continue
		}

		require.ErrorContains(t, err, tc.says, name)
		require.NotContains(t, err.Error(), "canary", name)
	}
}

func TestSettingsPrintAsNothing(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.Equal(t, "(settings)", fmt.Sprintf(verb, access.Settings{"secret-key": "canary"}))
	}
}
