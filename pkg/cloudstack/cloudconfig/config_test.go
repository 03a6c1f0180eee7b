// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/cases"
)

const configHead = "[Global]\napi-url = https://cloud.example.com/client/api\napi-key = ak\nsecret-key = sk\n"

func TestParse(t *testing.T) {
	t.Parallel()
	base := Default()
	base.APIURL, base.APIKey, base.SecretKey = "https://cloud.example.com/client/api", "ak", "sk"
	with := func(change func(*Config)) Config {
		c := base
		change(&c)
		return c
	}
	for name, tc := range map[string]struct {
		text string
		want Config
	}{
		"smallest": {configHead, base},
		"all": {configHead + `project-id = 9c1e
zone = Zone 1
node-vms = prod-[0-9]*
region = eu
ssl-no-verify = true
ca-file = /etc/ca.pem
timeout = 30s
job-timeout = 5m
rate-limit = 2.5
rate-burst = 7
cluster-id = prod
former-cluster-ids = kubernetes, 5f2c ,,kubernetes
`, with(func(c *Config) {
			c.ProjectID = "9c1e"
			c.Zone = "Zone 1"
			c.Region = "eu"
			c.SSLNoVerify = true
			c.CAFile = "/etc/ca.pem"
			c.ClusterID = "prod"
			c.NodeVMs = "prod-[0-9]*"
			c.Timeout, c.JobTimeout, c.RateLimit, c.RateBurst = 30*time.Second, 5*time.Minute, 2.5, 7
			c.FormerClusterIDs = []string{"kubernetes", "5f2c"}
		})},
		"of a list given twice the last counts": {configHead + "former-cluster-ids = a\nformer-cluster-ids = b\n",
			with(func(c *Config) { c.FormerClusterIDs = []string{"b"} })},
		"any case": {
			strings.NewReplacer("Global", "GLOBAL", "api-url", "API-URL", "api-key", "Api-Key").Replace(configHead),
			base,
		},
		"quoted": {
			"[Global]\napi-url = \"https://cloud.example.com/client/api\"\napi-key=\"ak\"\nsecret-key= \"sk\" " +
				"; comment\n",
			base,
		},
		"single quotes":         {strings.Replace(configHead, "= ak", "= 'ak'", 1), base},
		"windows lines and BOM": {"\ufeff" + strings.ReplaceAll(configHead, "\n", "\r\n"), base},
		"comments": {"# top\n; also\n" +
			strings.Replace(configHead, "= ak", "= ak # mine", 1) +
			"\n  # indented\n[Global] ; again\nzone = z\t; tab before\n", with(func(c *Config) { c.Zone = "z" })},
		"marks inside values": {strings.Replace(configHead, "= sk", "= s#k;k=k==", 1),
			with(func(c *Config) { c.SecretKey = "s#k;k=k==" })},
		"marks inside quotes": {configHead + `zone = "a # b ; c = \"d\" \\ e"` + "\n",
			with(func(c *Config) { c.Zone = `a # b ; c = "d" \ e` })},
		"backquote and backslash": {configHead + "zone = `x\\\nregion = y%(zone)s\\\n",
			with(func(c *Config) { c.Zone, c.Region = "`x\\", `y%(zone)s\` })},
		"empty values": {configHead + "project-id =\nzone = \"\"\ntimeout =\n", base},
		"bare boolean": {configHead + "ssl-no-verify\n",
			with(func(c *Config) { c.SSLNoVerify = true })},
		"words for booleans": {configHead + "ssl-no-verify = Yes\n",
			with(func(c *Config) { c.SSLNoVerify = true })},
		"off": {configHead + "ssl-no-verify = off\n", base},
		"the last one counts": {configHead + "zone = a\nzone = b\n",
			with(func(c *Config) { c.Zone = "b" })},
		"automatic": {configHead + "rate-limit = Auto\n", with(func(*Config) {})},
		"keys of another provider": {configHead +
			"api-rate-limit-qps = 2.5\napi-rate-limit-burst = 5\nasync-job-timeout = 90\n" +
			"verify-ssl = false\n", with(func(c *Config) {
			c.RateLimit, c.RateBurst, c.JobTimeout, c.SSLNoVerify = 2.5, 5, 90*time.Second, true
		})},
		"another provider without a limit": {configHead + "api-rate-limit-qps = 0\napi-rate-limit-burst =\n",
			with(func(c *Config) { c.RateLimit = 0 })},
		"unlimited": {configHead + "rate-limit = 0\n",
			with(func(c *Config) { c.RateLimit = 0 })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(strings.NewReader(tc.text))
			require.NoError(t, err)
			requireSameConfig(t, &tc.want, got)

			again, err := Parse(bytes.NewReader(got.Render()))
			require.NoError(t, err, "%s", got.Render())
			requireSameConfig(t, got, again)
		})
	}
}

// requireSameConfig also compares the output of Render: a Config prints without its keys, so a diff of the structs does
// not show different keys.
func requireSameConfig(t *testing.T, want, got *Config) {
	t.Helper()
	require.Equal(t, string(want.Render()), string(got.Render()))
	require.True(t, reflect.DeepEqual(want, got), "configurations differ in a default: want %s, got %s", want, got)
}

func TestParseConfigErrors(t *testing.T) {
	cases.Run(t, "testdata/errors.yaml", func(t *testing.T, _ string, c struct {
		Text, More *string
		Replace    []string
		Error      string
	}) {
		text := configHead
		switch {
		case c.Text != nil:
			text = *c.Text
		case c.More != nil:
			text += *c.More
		default:
			text = strings.Replace(text, c.Replace[0], c.Replace[1], 1)
		}

		_, err := Parse(strings.NewReader(text))
		require.ErrorContains(t, err, c.Error)
		require.True(t, strings.HasPrefix(err.Error(), "cloud-config: "), err.Error())
		require.NotContains(t, err.Error(), "S3cr3tCanary")
		require.NotContains(t, err.Error(), "\n")
	})
}

func TestParseOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, err := Parse(failingReader{})
	require.ErrorContains(t, err, "disk on fire")
	_, err = Parse(strings.NewReader(configHead + strings.Repeat("# x\n", maxSize)))
	require.ErrorContains(t, err, "cloud-config: is larger than 1 MiB")
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func TestConfigNeverShowsSecrets(t *testing.T) {
	t.Parallel()
	c := Config{APIURL: "https://h/client/api", APIKey: "canaryApiKey", SecretKey: "canarySecretKey", Zone: "z"}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "cfg", c, "ptr", &c)
	marshalled, err := json.Marshal(map[string]any{"c": c, "p": &c})
	require.NoError(t, err)
	bad := Config{APIURL: "https://u:canaryPassword@h/"}
	texts := []string{logged.String(), string(marshalled), bad.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, struct{ C Config }{c}))
	}
	for _, text := range texts {
		require.NotContains(t, text, "canary")
	}
	require.Contains(t, c.String(), "https://h/client/api")
	require.Contains(t, c.String(), redacted)
}

func TestConfigWarnings(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Config{APIURL: "https://h/client/api"}).Warnings())
	require.Empty(t, (&Config{APIURL: "https://h/client/api/"}).Warnings())
	require.Contains(t, (&Config{APIURL: "https://h"}).Warnings()[0], "no path")
	c, err := Parse(strings.NewReader(configHead + "vm-cache-ttl = 30\napi-rate-limit-burst = 0\n"))
	require.NoError(t, err)
	require.Equal(t, []string{
		"vm-cache-ttl is a key of another provider and has no effect",
		"api-rate-limit-burst is a key of another provider and has no effect",
	}, c.Warnings())
	w := (&Config{APIURL: "https://h/client", SSLNoVerify: true}).Warnings()
	require.Len(t, w, 2)
	require.Contains(t, w[0], "/client/api")
	require.Contains(t, w[1], "ca-file")
}

func TestRenderQuotes(t *testing.T) {
	t.Parallel()
	c := Default()
	c.APIURL, c.APIKey, c.SecretKey, c.Zone = "https://h/client/api", "a", "b", "Zone; 1\nsecret-key = stolen"
	require.Equal(t,
		"[Global]\napi-url = https://h/client/api\napi-key = a\nsecret-key = b\nzone = \"Zone; 1\\nsecret-key "+
			"= stolen\"\n", string(c.Render()))
}

func FuzzParse(f *testing.F) {
	f.Add(configHead)
	f.Add("[Global]\napi-url=\"http://h/client/api\"\napi-key='a'\nsecret-key=b ; c\nzone=\"x\\n\"\n")
	f.Add("[global]\nssl-no-verify\n[x\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := Parse(strings.NewReader(text))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again, err := Parse(bytes.NewReader(cfg.Render()))
		cfg.Ignored = nil // Render does not write ignored keys
		require.NoError(t, err, "rendered: %q", cfg.Render())
		requireSameConfig(t, cfg, again)
	})
}
