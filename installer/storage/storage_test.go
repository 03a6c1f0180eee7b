// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// The driver's file has the controller's keys, and none that the driver does not know.
func TestCloudConfig(t *testing.T) {
	t.Parallel()
	whole := "[Global]\napi-url = https://cloud.example.org/client/api\napi-key = a#b\nsecret-key = \"c\\\"d\"\nproject-id = p\nzone = z\nregion = north\n" +
		"ssl-no-verify = true\nca-file = /ca\ntimeout = 5s\nrate-limit = 3\nlb-mode = proxy\nprevious-record-key = x\ncluster-id = c\n"
	cfg, err := cloudconfig.Parse(strings.NewReader(whole))
	require.NoError(t, err)
	require.Equal(t, []string{"region", "ca-file", "timeout", "rate-limit", "lb-mode", "previous-record-key", "cluster-id"}, Unknown(whole))
	file := string(CloudConfig(cfg))
	require.Empty(t, Unknown(file))
	own, err := cloudconfig.Parse(strings.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, []string{cfg.APIURL, cfg.APIKey, cfg.SecretKey, "p"}, []string{own.APIURL, own.APIKey, own.SecretKey, own.ProjectID})
	require.True(t, own.SSLNoVerify)
	require.Equal(t, []string{"ca-file"}, Unknown("[Global]\nssl-no-verify\nCA-File = x\n"))
}

// The page names the chart that is installed.
func TestPageNamesTheChart(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"install.md", "install-by-hand.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		require.Contains(t, string(text), Pinned.Version, page)
		if page == "install.md" {
			require.Contains(t, string(text), "`"+Pinned.Tag+"`")
		} else {
			require.Contains(t, string(text), "--repo "+Pinned.Repository+" ")
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	at := func(values map[string]any, path ...string) any {
		for _, name := range path[:len(path)-1] {
			values, _ = values[name].(map[string]any)
		}
		return values[path[len(path)-1]]
	}
	v := Values(Setting{Secret: "s", ControlNode: true})
	require.Equal(t, map[string]any{"enabled": true, "create": false, "name": "s"}, v["secret"])
	for _, path := range [][]string{{"controller", "affinity"}, {"controller", "env"}, {"controller", "volumes"}, {"node", "kubeletPath"}} {
		require.Nil(t, at(v, path...), path)
	}
	require.Len(t, at(v, "node", "volumes"), 2)
	v = Values(Setting{Secret: "s", KubeletDir: "/k", CAConfigMap: "ca", CAKey: "ca.crt"})
	require.NotNil(t, at(v, "controller", "affinity"))
	require.Equal(t, "/k", at(v, "node", "kubeletPath"))
	require.Len(t, at(v, "controller", "volumeMounts"), 1)
	require.Len(t, at(v, "node", "volumeMounts"), 3)
	require.Equal(t, []any{map[string]any{"name": "SSL_CERT_FILE", "value": "/etc/cloudstack-ca/ca.crt"}}, at(v, "node", "env"))
}
