// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestStringToSign(t *testing.T) {
	t.Parallel()
	ps := []wire.Param{{Name: "response", Value: "json"}, {Name: "Zeta", Value: "A b~*+/ü"}, {Name: "apiKey", Value: "K"}, {Name: "signature", Value: "x"}, {Name: "command", Value: "listZones"}, {Name: "empty", Value: ""}}
	require.Equal(t, "zeta=a%20b%7e*%2b%2f%c3%bc&apikey=k&command=listzones&empty=&response=json", wire.StringToSign(ps))
}

func TestSignatureVersions(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	at := func(d time.Duration, format string) string { return h.clock.Now().Add(d).UTC().Format(format) }
	for name, tc := range map[string]struct {
		version, expires string
		status           int
	}{
		"no version":             {"", "", 200},
		"version 4 is ignored":   {"4", "long ago", 200},
		"expires ignored":        {"", at(-time.Hour, wire.ExpiresFormats[0]), 200},
		"version 3":              {"3", at(time.Minute, wire.ExpiresFormats[0]), 200},
		"version 3, Z":           {"3", at(time.Minute, wire.ExpiresFormats[1]), 200},
		"version 3, millis":      {"3", at(time.Minute, wire.ExpiresFormats[2]), 200},
		"version 3, in the past": {"3", at(-time.Second, wire.ExpiresFormats[0]), 401},
		"version 3, no expires":  {"3", "", 401},
		"version 3, unreadable":  {"3", "soon", 401},
	} {
		var pairs []string
		if tc.version != "" {
			pairs = append(pairs, "signatureVersion", tc.version)
		}
		if tc.expires != "" {
			pairs = append(pairs, "expires", tc.expires)
		}
		require.Equal(t, tc.status, h.call("k8s-owner", "listZones", pairs...).status, name)
	}
}

// TestOrderOfChecks follows section 1.4 of the API contract.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	const u = "k8s-owner"
	plain := func(a answer, key string) {
		t.Helper()
		h.fails(a, 401, 0, wire.AuthText)
		require.Equal(t, key, a.key)
		require.Empty(t, a.header.Get("X-Description"))
		require.Equal(t, "application/json;charset=utf-8", a.header.Get("Content-Type"))
	}
	plain(h.get(h.url+"?response=json"), "null")
	plain(h.call(u, "noSuchCommand"), "errorresponse")
	plain(h.call(u, "listzones"), "errorresponse") // the value of command is case sensitive
	q := h.signed(u, "listZones")
	q.Del("signature")
	plain(h.get(h.url+"?"+q.Encode()), "listzonesresponse")
	q = h.signed(u, "listZones")
	q.Set("signature", "AAAA")
	plain(h.get(h.url+"?"+q.Encode()), "listzonesresponse")
	// The role is looked at before the signature, both before the parameters.
	q = h.signed(u, "createZone")
	q.Set("signature", "AAAA")
	a := h.get(h.url + "?" + q.Encode())
	h.fails(a, 432, wire.CSGeneric, "The API [createZone] does not exist or is not available for the account for user id [")
	require.Equal(t, "errorresponse", a.key)
	require.Contains(t, a.header.Get("X-Description"), "The API [createZone] does not exist")
	h.fails(h.call(u, "createLoadBalancerRule"), 431, wire.CSGeneric, "missing parameter algorithm")
	// Known to the real server, but not to this one.
	h.fails(h.call(u, "listBackups"), 530, wire.CSGeneric, "the simulator does not implement the command listBackups")
}

func TestMergeOfQueryAndBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ query, body, want string }{
		"query wins":             {"a=1", "a=2", "1"},
		"last wins in the query": {"a=1&a=2", "", "2"},
		"first wins in the body": {"", "a=1&a=2", "1"},
		"both are read":          {"b=7", "a=3", "3"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/client/api?"+tc.query, strings.NewReader(tc.body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req, apiErr := wire.ParseRequest(r)
		require.Nil(t, apiErr)
		require.Equal(t, tc.want, req.Values["a"], name)
	}
}

func TestTransportLimits(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	long := h.call("k8s-owner", "listZones", "keyword", strings.Repeat("x", 9000))
	require.Equal(t, http.StatusRequestURITooLong, long.status)
	require.Contains(t, long.raw, "<html>")
	require.Equal(t, 200, h.post("k8s-owner", "listZones", "bogus", strings.Repeat("x", 9000)).status)
	require.Equal(t, 404, h.get(strings.Replace(h.url, "/client/api", "/api", 1)).status)
	require.Equal(t, 200, h.get(strings.TrimSuffix(h.url, "/api")).status)
	h.sim.Close()
	require.Equal(t, 503, h.call("k8s-owner", "listZones").status)
}

func TestXMLIsRefusedClearly(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	key, secret, _ := h.sim.Keys("k8s-owner")
	q := url.Values{"command": {"listZones"}, "apikey": {key}}
	q.Set("signature", wire.Sign(secret, toParams(q)))
	a := h.get(h.url + "?" + q.Encode())
	require.Equal(t, 530, a.status)
	require.Contains(t, a.raw, "<errortext>the simulator answers JSON only: send response=json</errortext>")
}

func TestParameterErrors(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	const u = "k8s-owner"
	lb := func(pairs ...string) answer {
		m := map[string]string{"publicipid": id(h.first(h.call(u, "listPublicIpAddresses", "ipaddress", "203.0.113.20"), "publicipaddress")),
			"name": "n", "algorithm": "roundrobin", "publicport": "8090", "privateport": "30000", "protocol": "tcp", "openfirewall": "false"}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		var all []string
		for k, v := range m {
			all = append(all, k, v)
		}
		return h.call(u, "createLoadBalancerRule", all...)
	}
	h.fails(lb("name", ""), 431, wire.CSInvalidValue, "Invalid value provided for API arg: name")
	h.fails(lb("name", strings.Repeat("n", 256)), 431, wire.CSGeneric, "Value greater than max allowed length 255 for param: loadBalancerRuleName")
	h.fails(lb("publicport", "http"), 431, wire.CSGeneric, "due to invalid value http for parameter publicport")
	h.fails(lb("publicipid", "203.0.113.20"), 431, wire.CSGeneric, "Invalid parameter publicipid value=203.0.113.20 due to incorrect long value format")
	h.fails(lb("name", "a\x01b"), 431, wire.CSGeneric, "containing illegal ASCII non-printable characters for parameter name")
	h.fails(lb("publicport", "8081"), 431, wire.CSGeneric, "LB service provider cannot support this rule")
	h.fails(lb("protocol", "udp"), 431, wire.CSGeneric, "LB service provider cannot support this rule")
	h.fails(lb("protocol", "sctp"), 431, wire.CSGeneric, "protocol sctp is not in valid protocols [tcp, udp, tcp-proxy, ssl]")
	h.fails(lb("publicport", "80"), 537, wire.CSGeneric, "The range specified, 80-80, conflicts with rule FirewallRule {")
	h.fails(h.call(u, "createTags", "resourceids", "x", "resourcetype", "UserVm", "tags[x].key", "k"), 430, wire.CSGeneric, "tags[x].key")
	h.ok(lb("NAME", "ignored, names are case-insensitive"))
}

// TestAdminOnlyParameters: silently dropped for everyone else.
func TestAdminOnlyParameters(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	ip := id(h.first(h.call("k8s-owner", "listPublicIpAddresses", "ipaddress", "203.0.113.20"), "publicipaddress"))
	args := []string{"publicipid", ip, "name", "n", "algorithm", "source", "privateport", "1", "openfirewall", "false", "fordisplay", "false"}
	h.done("k8s-owner", h.call("k8s-owner", "createLoadBalancerRule", append(args, "publicport", "1001")...))
	h.done("admin", h.call("admin", "createLoadBalancerRule", append(args, "publicport", "1002")...))
	require.Len(t, h.call("k8s-owner", "listLoadBalancerRules", "name", "n").items("loadbalancerrule"), 1)
	require.Len(t, h.call("admin", "listLoadBalancerRules", "name", "n", "listall", "true").items("loadbalancerrule"), 2)
}
