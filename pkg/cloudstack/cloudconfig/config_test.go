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
			c.ProjectID, c.Zone, c.Region, c.SSLNoVerify, c.CAFile, c.ClusterID = "9c1e", "Zone 1", "eu", true, "/etc/ca.pem", "prod"
			c.NodeVMs = "prod-[0-9]*"
			c.Timeout, c.JobTimeout, c.RateLimit, c.RateBurst = 30*time.Second, 5*time.Minute, 2.5, 7
			c.FormerClusterIDs = []string{"kubernetes", "5f2c"}
		})},
		"of a list given twice the last counts": {configHead + "former-cluster-ids = a\nformer-cluster-ids = b\n", with(func(c *Config) { c.FormerClusterIDs = []string{"b"} })},
		"any case":                              {strings.NewReplacer("Global", "GLOBAL", "api-url", "API-URL", "api-key", "Api-Key").Replace(configHead), base},
		"quoted":                                {"[Global]\napi-url = \"https://cloud.example.com/client/api\"\napi-key=\"ak\"\nsecret-key= \"sk\" ; comment\n", base},
		"single quotes":                         {strings.Replace(configHead, "= ak", "= 'ak'", 1), base},
		"windows lines and BOM":                 {"\ufeff" + strings.ReplaceAll(configHead, "\n", "\r\n"), base},
		"comments":                              {"# top\n; also\n" + strings.Replace(configHead, "= ak", "= ak # mine", 1) + "\n  # indented\n[Global] ; again\nzone = z\t; tab before\n", with(func(c *Config) { c.Zone = "z" })},
		"marks inside values":                   {strings.Replace(configHead, "= sk", "= s#k;k=k==", 1), with(func(c *Config) { c.SecretKey = "s#k;k=k==" })},
		"marks inside quotes":                   {configHead + `zone = "a # b ; c = \"d\" \\ e"` + "\n", with(func(c *Config) { c.Zone = `a # b ; c = "d" \ e` })},
		"backquote and backslash":               {configHead + "zone = `x\\\nregion = y%(zone)s\\\n", with(func(c *Config) { c.Zone, c.Region = "`x\\", `y%(zone)s\` })},
		"empty values":                          {configHead + "project-id =\nzone = \"\"\ntimeout =\n", base},
		"bare boolean":                          {configHead + "ssl-no-verify\n", with(func(c *Config) { c.SSLNoVerify = true })},
		"words for booleans":                    {configHead + "ssl-no-verify = Yes\n", with(func(c *Config) { c.SSLNoVerify = true })},
		"off":                                   {configHead + "ssl-no-verify = off\n", base},
		"the last one counts":                   {configHead + "zone = a\nzone = b\n", with(func(c *Config) { c.Zone = "b" })},
		"automatic":                             {configHead + "rate-limit = Auto\n", with(func(*Config) {})},
		"keys of another provider": {configHead + "api-rate-limit-qps = 2.5\napi-rate-limit-burst = 5\nasync-job-timeout = 90\n", with(func(c *Config) {
			c.RateLimit, c.RateBurst, c.JobTimeout = 2.5, 5, 90*time.Second
		})},
		"another provider without a limit": {configHead + "api-rate-limit-qps = 0\napi-rate-limit-burst =\n", with(func(c *Config) { c.RateLimit = 0 })},
		"unlimited":                        {configHead + "rate-limit = 0\n", with(func(c *Config) { c.RateLimit = 0 })},
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

// requireSameConfig compares what Render writes too: Config prints without keys,
// so that a diff of the structs would say nothing.
func requireSameConfig(t *testing.T, want, got *Config) {
	t.Helper()
	require.Equal(t, string(want.Render()), string(got.Render()))
	require.True(t, reflect.DeepEqual(want, got), "configurations differ in a default: want %s, got %s", want, got)
}

func TestParseConfigErrors(t *testing.T) {
	t.Parallel()
	secretLine := strings.Repeat("S3cr3tCanary", 7)
	for name, tc := range map[string]struct{ text, want string }{
		"empty":              {"", "section [Global] is missing"},
		"no section":         {"api-url = x\n", `line 1: key "api-url" stands above any section`},
		"unknown section":    {"[Globl]\n", `line 1: unknown section ["Globl"]`},
		"subsection":         {configHead + "[LoadBalancer]\nx = y\n", `line 5: unknown section ["LoadBalancer"]; there is only [Global]`},
		"misspelt key":       {configHead + "secrt-key = x\n", `line 5: unknown key "secrt-key"; did you mean secret-key?`},
		"underscore":         {configHead + "api_url = x\n", `line 5: unknown key "api_url"; did you mean api-url?`},
		"no dash":            {configHead + "sslnoverify = true\n", "did you mean ssl-no-verify?"},
		"unlike any":         {configHead + "verbosity = 5\n", "known are api-url, api-key, secret-key"},
		"no equals sign":     {configHead + "\nzone z\n", "line 6: is neither [Global] nor key = value nor a comment"},
		"broken section":     {"[Global\n", "line 1: is neither"},
		"a secret on a line": {configHead + secretLine + "\n", "line 5: is neither"},
		"a secret as key":    {configHead + secretLine + " = x\n", "line 5: unknown key (a name of 84 characters)"},
		"no url":             {"[Global]\napi-key = a\nsecret-key = b\n", "api-url: is missing; write for example https://"},
		"no key":             {"[Global]\napi-url = http://h/client/api\nsecret-key = b\n", "api-key is missing"},
		"no secret":          {"[Global]\napi-url = http://h/client/api\napi-key = b\n", "secret-key is missing"},
		"key in two":         {strings.Replace(configHead, "= ak", "= a k", 1), "api-key has blanks"},
		"url without scheme": {strings.Replace(configHead, "https://", "", 1), "api-url: must begin with http:// or https://"},
		"url without host":   {strings.Replace(configHead, "cloud.example.com", "", 1), "api-url: has no host"},
		"url with query":     {strings.Replace(configHead, "client/api", "client/api?apiKey=S3cr3tCanary", 1), "without ? or #"},
		"url with password":  {strings.Replace(configHead, "cloud.", "u:S3cr3tCanary@cloud.", 1), "must not hold a user or password"},
		"url with blanks":    {strings.Replace(configHead, "https://cloud", "https://cl oud", 1), "api-url: is not a URL"},
		"timeout, no unit":   {configHead + "timeout = 60\n", "line 5: timeout: is not a duration above 0; write a number with a unit, for example 60s"},
		"timeout 0":          {configHead + "timeout = 0s\n", "timeout: is not a duration above 0"},
		"job-timeout":        {configHead + "job-timeout = soon\n", "job-timeout: is not a duration"},
		"rate-limit":         {configHead + "rate-limit = many\n", "rate-limit: is not a number"},
		"rate-limit NaN":     {configHead + "rate-limit = NaN\n", "rate-limit: is not a number"},
		"rate-burst":         {configHead + "rate-burst = 0\n", "rate-burst: is not a whole number above 0"},
		"node-vms":           {configHead + "node-vms = prod-[\n", "node-vms: is not a pattern"},
		"boolean":            {configHead + "ssl-no-verify = S3cr3tCanary\n", "ssl-no-verify: is neither true nor false"},
		"open quote":         {strings.Replace(configHead, "= sk", `= "S3cr3tCanary`, 1), "line 4: secret-key: has no closing quote"},
		"text after quote":   {strings.Replace(configHead, "= sk", `= "a" S3cr3tCanary`, 1), "secret-key: has text after the closing quote"},
		"unknown escape":     {strings.Replace(configHead, "= sk", `= "S3cr3tCanary\x"`, 1), "secret-key: has an unknown escape"},
		"too large":          {configHead + strings.Repeat("# x\n", maxSize), "larger than 1 MiB"},
	} {
		_, err := Parse(strings.NewReader(tc.text))
		require.ErrorContains(t, err, tc.want, name)
		require.True(t, strings.HasPrefix(err.Error(), "cloud-config: "), err.Error())
		require.NotContains(t, err.Error(), "S3cr3tCanary")
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Parse(failingReader{})
	require.ErrorContains(t, err, "disk on fire")
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
		"vm-cache-ttl is a key of another provider and has no effect", "api-rate-limit-burst is a key of another provider and has no effect",
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
	require.Equal(t, "[Global]\napi-url = https://h/client/api\napi-key = a\nsecret-key = b\nzone = \"Zone; 1\\nsecret-key = stolen\"\n", string(c.Render()))
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
		cfg.Ignored = nil // they are not written
		require.NoError(t, err, "rendered: %q", cfg.Render())
		requireSameConfig(t, cfg, again)
	})
}
