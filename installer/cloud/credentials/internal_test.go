// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func allowed(rule string) cloudapi.RolePermission {
	return cloudapi.RolePermission{Rule: rule, Permission: "allow"}
}

func denied(rule string) cloudapi.RolePermission {
	return cloudapi.RolePermission{Rule: rule, Permission: "deny"}
}

func TestRuleMatches(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		rule, command string
		want          bool
	}{
		{"listZones", "listzones", true},
		{"listZones", "listZonesX", false},
		{"*", "anything", true},
		{"list*", "listZones", true},
		{"list*", "createTags", false},
		{"*Rule", "createLoadBalancerRule", true},
		{"*Load*Rule", "createLoadBalancerRule", true},
		{"*Load*Rule", "createFirewallRule", false},
		{"a*a", "a", false},
		{"list*Load*Load*s", "listLoads", false},
	} {
		rules := []cloudapi.RolePermission{{Rule: tc.rule, Permission: "allow"}}
		require.Equal(t, tc.want, judge(rules, tc.command) == allow, "%s on %s", tc.rule, tc.command)
	}
}

func TestPlanRole(t *testing.T) {
	t.Parallel()
	ours := &cloudapi.Role{ID: "r", Type: "User", Description: roleDescription}
	theirs := &cloudapi.Role{ID: "r", Type: "User", Description: "hand made"}
	for name, tc := range map[string]struct {
		role  *cloudapi.Role
		rules []cloudapi.RolePermission
		want  []cloudapi.RolePermission // rules to add
		err   string
	}{
		"none": {
			want: []cloudapi.RolePermission{allowed("listZones"), allowed("createTags"), denied("*")},
		},
		"half made, as a crash leaves it": {ours, []cloudapi.RolePermission{allowed("listZones")},
			[]cloudapi.RolePermission{allowed("createTags"), denied("*")}, ""},
		"all but the closing deny": {ours,
			[]cloudapi.RolePermission{allowed("listZones"), allowed("createTags")},
			[]cloudapi.RolePermission{denied("*")}, ""},
		"complete": {ours,
			[]cloudapi.RolePermission{allowed("list*"), allowed("createTags"), denied("*")}, nil, ""},
		"closed too early": {ours, []cloudapi.RolePermission{allowed("listZones"), denied("*"), allowed("createTags")},
			nil,
			`role "n" denies createTags, and CloudStack adds rules only behind its closing deny`},
		"foreign role is never changed": {theirs, []cloudapi.RolePermission{allowed("listZones")}, nil, ""},
		"foreign role that denies": {theirs, []cloudapi.RolePermission{denied("create*")}, nil,
			`role "n" denies createTags`},
		"wrong type": {&cloudapi.Role{ID: "r", Name: "n", Type: "Admin"}, nil, nil,
			"is of type Admin"},
	} {
		got, err := missing("n", tc.role, tc.rules, []string{"listZones", "createTags"})
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			var e *report.Error
			require.ErrorAs(t, err, &e, name)
			require.NotEmpty(t, e.Remedy(), name)
			continue
		}

		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
}

func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"http://cloud.example.org/client/api":   true,
		"HTTP://cloud.example.org/client/api":   true,
		"http://192.0.2.1:8080/client/api":      true,
		"http://[2001:db8::1]:8080/client/api":  true,
		"http://localhost.example.org/client":   true,
		"https://cloud.example.org/client/api":  false,
		"http://localhost:8080/client/api":      false,
		"http://127.0.0.1:8080/client/api":      false,
		"http://127.1.2.3/client/api":           false,
		"http://[::1]:8080/client/api":          false,
		"":                                      false,
		"://":                                   false,
		"https://user@cloud.example.org/client": false,
	} {
		require.Equal(t, want, PlainHTTP(url), url)
		require.NoError(t, RefusePlainLogin(url, true), url)
		err := RefusePlainLogin(url, false)
		if !want {
			require.NoError(t, err, url)
			continue
		}

		var e *report.Error
		require.ErrorAs(t, err, &e, url)
		require.Equal(t, 2, e.ExitCode())
		require.Contains(t, e.Remedy(), "--allow-http")
	}
}

func TestExposedMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	for mode, want := range map[fs.FileMode]bool{
		0o600: false,
		0o400: false,
		0o700: false,
		0o640: true,
		0o604: true,
		0o620: false,
	} {
		_, is := ExposedMode(file("mode", mode))
		require.Equal(t, want, is, mode)
	}
	mode, is := ExposedMode(file("key", 0o644))
	require.True(t, is)
	require.EqualValues(t, 0o644, mode)

	// As the kubelet mounts a Secret: key -> ..data/key, ..data -> a folder with the time in its name.
	file("..2026_11_22/password", 0o644)
	for link, to := range map[string]string{"..data": "..2026_11_22", "mounted": "..data/password", "link": "key"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	for path, want := range map[string]bool{
		file("private", 0o600):              false,
		filepath.Join(dir, "none"):          false,
		"/dev/null":                         false,
		dir:                                 false,
		file("run/secrets/password", 0o644): false,
		filepath.Join(dir, "mounted"):       false, // a Secret that Kubernetes mounts
		filepath.Join(dir, "link"):          true,  // a symbolic link to a file that others may read
	} {
		_, is = ExposedMode(path)
		require.Equal(t, want, is, path)
	}
}

// If CloudStack requires a second factor, the error says so and names the alternative. CloudStack says it either in the
// answer to the login, or by the status 511 of every later call.
func TestTwoFactorLogin(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"the login says so": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"loginresponse":{"sessionkey":"session-canary","is2faenabled":"true","is2faverified":"false"}}`))
		},
		"status 511": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNetworkAuthenticationRequired)
			_, _ = w.Write([]byte(`{"loginresponse":{"errorcode":511,"errortext":"two factor"}}`))
		},
	} {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		cfg := cloudconfig.Default()
		cfg.APIURL = server.URL + "/client/api"

		_, err := cloudapi.Login(t.Context(), &cfg, "admin", "word-canary", "ROOT")
		err = ExplainLogin(cfg.APIURL, "admin", "ROOT", err)
		var e *report.Error
		require.ErrorAs(t, err, &e, name)
		require.Contains(t, e.Error(), `user "admin" has two-factor authentication`, name)
		require.Contains(t, e.Remedy(), "--admin-api-key-file", name)
		require.NotContains(t, e.Error()+e.Remedy(), "canary", name)
	}
}

// Each kind of refusal of the controller's keys has its own remedy.
func TestRemedy(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"ca-file": &cloudstack.Error{
			Kind: cloudstack.KindTransient,
			Text: "the server's certificate is not trusted (...)",
		},
		"/client/api": &cloudstack.Error{Kind: cloudstack.KindInvalid, Text: "got HTML in place of the API"},
		"csccm install --overwrite-secret --admin-user": &cloudstack.Error{Kind: cloudstack.KindAuth},
		"add the command": &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listZones"},
		"network to":      &cloudstack.Error{Kind: cloudstack.KindTransient},
		"wait a minute":   &cloudstack.Error{Kind: cloudstack.KindThrottled},
	} {
		require.Contains(t, Remedy(err), want)
	}

	for want, cause := range map[string]error{
		"renewed":                   x509.CertificateInvalidError{Reason: x509.Expired},
		"host name of CloudStack's": x509.HostnameError{Certificate: &x509.Certificate{}},
		"scheme or port":            tls.RecordHeaderError{},
	} {
		err := &cloudstack.Error{
			Kind: cloudstack.KindTransient,
			Text: "the server's certificate is not trusted (...)",
			Err:  fmt.Errorf("get: %w", cause),
		}
		require.Contains(t, Remedy(err), want)
		require.Contains(t, unanswered("https://cloud.example.org", err).Remedy(), want)
		require.NotContains(t, Remedy(err), "ca-file", "no authority makes it good")
	}

	require.Empty(t, Remedy(nil))
	require.Empty(t, Remedy(&cloudstack.Error{Kind: cloudstack.KindConflict}))
}
