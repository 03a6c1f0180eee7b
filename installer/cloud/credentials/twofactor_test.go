// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// A login that CloudStack wants a second factor for is named as what it is, with the way around: in the answer to
// the login, and by the status 511 that every later call has.
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
		_, err := cloudstack.Login(t.Context(), &cfg, "admin", "word-canary", "ROOT")
		err = ExplainLogin(cfg.APIURL, "admin", "ROOT", err)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.Contains(t, e.Error(), `user "admin" has two-factor authentication`, name)
		require.Contains(t, e.Remedy(), "--admin-api-key-file", name)
		require.NotContains(t, e.Error()+e.Remedy(), "canary", name)
	}
}

// Each way in which CloudStack refuses the controller's keys has its own way on.
func TestRemedy(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"ca-file":          &cloudstack.Error{Kind: cloudstack.KindTransient, Text: "the server's certificate is not trusted (...)"},
		"/client/api":      &cloudstack.Error{Kind: cloudstack.KindInvalid, Text: "got HTML in place of the API"},
		"csccm rotate-key": &cloudstack.Error{Kind: cloudstack.KindAuth},
		"add listZones":    &cloudstack.Error{Kind: cloudstack.KindNotPermitted, Command: "listZones"},
		"network between":  &cloudstack.Error{Kind: cloudstack.KindTransient},
		"wait a minute":    &cloudstack.Error{Kind: cloudstack.KindThrottled},
	} {
		require.Contains(t, Remedy(err), want)
	}
	for want, cause := range map[string]error{
		"renewed": x509.CertificateInvalidError{Reason: x509.Expired}, "host name of CloudStack's": x509.HostnameError{Certificate: &x509.Certificate{}},
		"scheme or port": tls.RecordHeaderError{},
	} {
		err := &cloudstack.Error{Kind: cloudstack.KindTransient, Text: "the server's certificate is not trusted (...)", Err: fmt.Errorf("get: %w", cause)}
		require.Contains(t, Remedy(err), want)
		require.Contains(t, unanswered("https://cloud.example.org", err).Remedy(), want)
		require.NotContains(t, Remedy(err), "ca-file", "no authority makes it good")
	}
	require.Empty(t, Remedy(nil))
	require.Empty(t, Remedy(&cloudstack.Error{Kind: cloudstack.KindConflict}))
}
