// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/credentials"
)

func TestReadCMK(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`# cmk
prompt = 🐱
[core]
profile = lab
`), 0o600))
	_, err := credentials.ReadCMK(file, "lab")
	require.ErrorContains(t, err, "line 2 is neither")

	require.NoError(t, os.WriteFile(file, []byte(`[core]
profile   = lab
output    = json

[lab]
url        = https://lab.example.org/client/api
username   = admin
password   = p=word-canary
domain     = /
apikey     = key-canary
secretkey  = secret-canary
verifycert = false

[old]
username = x
`), 0o600))
	p, err := credentials.ReadCMK(file, credentials.CMKCurrent)
	require.NoError(t, err)
	require.Equal(t, credentials.CMKProfile{
		Name: "lab", URL: "https://lab.example.org/client/api", Username: "admin", Password: "p=word-canary", Domain: "/",
		Keys: credentials.Keys{APIKey: "key-canary", SecretKey: "secret-canary"}, SSLNoVerify: true,
	}, *p)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", p, *p, *p, p), "canary")

	_, err = credentials.ReadCMK(file, "prod")
	require.EqualError(t, err, file+` has no profile "prod"`)
	var e *credentials.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "name one of these: lab, old", e.Remedy())
	_, err = credentials.ReadCMK(file, "old")
	require.ErrorContains(t, err, "has no url")
	_, err = credentials.ReadCMK(file+"x", "old")
	require.ErrorContains(t, err, "no such file")
}
