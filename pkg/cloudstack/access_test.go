// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func TestAdoptTakesOverKeysAndEndpoint(t *testing.T) {
	t.Parallel()
	echo := func(n int, form url.Values) reply {
		return jsonReply(401, `{"listzonesresponse":{"errorcode":401,"errortext":"`+form.Get("apiKey")+` `+testSecretKey+` `+form.Get("signature")+`"}}`)
	}
	one, two := newFakeAPI(t, echo), newFakeAPI(t, echo)
	c := one.client(t)
	cfg := cloudconfig.Default()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey, cfg.RateLimit = two.URL+"/client/api", "anotherKey-CCCC=", "anotherSecret-DDDD=", 0
	other, err := NewClient(&cfg)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)

	_, err = c.ListZones(t.Context())
	require.Error(t, err)
	c.Adopt(other)
	require.Equal(t, two.URL+"/client/api", c.Endpoint())
	_, err = c.ListZones(t.Context())
	require.True(t, IsKind(err, KindAuth))
	for _, secret := range []string{testAPIKey, testSecretKey, "anotherKey", "anotherSecret", two.recorded()[0].Form.Get("signature")} {
		require.NotContains(t, err.Error(), secret, "old and new keys are kept out of texts")
	}
	require.Len(t, one.recorded(), 1)
	require.Equal(t, "anotherKey-CCCC=", two.recorded()[0].Form.Get("apiKey"))
	form := two.recorded()[0].Form
	signature := form.Get("signature")
	form.Del("signature")
	require.Equal(t, sign(form, "anotherSecret-DDDD="), signature)
}

func TestWriteGate(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, func(int, url.Values) reply { return jsonReply(200, `{"xresponse":{}}`) })
	var inside, entered int
	var closed error
	c := f.client(t, WithWriteGate(func() (func(), error) {
		if closed != nil {
			return nil, closed
		}
		inside++
		entered++
		return func() { inside-- }, nil
	}))
	_, err := c.ListZones(t.Context())
	require.NoError(t, err)
	require.Zero(t, entered, "reads need no permission")
	_ = c.custom(t.Context(), "deleteFirewallRule", nil, callOptions{}, &struct{}{})
	require.Equal(t, 1, entered)
	require.Zero(t, inside)
	before := len(f.recorded())
	closed = errors.New("not the leader")
	err = c.custom(t.Context(), "deleteFirewallRule", nil, callOptions{}, &struct{}{})
	require.ErrorContains(t, err, "not sent: not the leader")
	require.True(t, IsKind(err, KindTransient))
	require.Len(t, f.recorded(), before)
}

func TestCABundle(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"listzonesresponse":{}}`))
	}))
	t.Cleanup(server.Close)
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	cfg := cloudconfig.Default()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey, cfg.CABundle = server.URL+"/client/api", testAPIKey, testSecretKey, bundle
	_, err := NewClient(&cfg)
	require.ErrorContains(t, err, "CA bundle")
	require.NoError(t, os.WriteFile(bundle, []byte("nothing\n"), 0o600))
	_, err = NewClient(&cfg)
	require.ErrorContains(t, err, "holds no PEM certificate")
	require.NoError(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	c, err := NewClient(&cfg)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	_, err = c.ListZones(t.Context())
	require.NoError(t, err)
}

func TestListVirtualMachinesAffinityGroups(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, func(int, url.Values) reply {
		return jsonReply(200, `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"v","hostid":"h","hostname":"kvm-1","affinitygroup":[{"id":"a","name":"spread","type":"host anti-affinity"}]}]}}`)
	})
	vms, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{WithOffering: true, WithAffinityGroups: true})
	require.NoError(t, err)
	require.Equal(t, []AffinityGroup{{ID: "a", Name: "spread"}}, vms[0].AffinityGroups)
	require.Equal(t, "kvm-1", vms[0].HostName)
	require.Equal(t, "nics,servoff,affgrp", f.recorded()[0].Form.Get("details"))
}
