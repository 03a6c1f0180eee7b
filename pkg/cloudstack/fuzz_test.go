// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/recordings"
)

// FuzzAnswers feeds arbitrary answers to every reader: none may panic, every
// error is an *Error.
func FuzzAnswers(f *testing.F) {
	all, err := recordings.Read("../simulator/testdata/golden")
	require.NoError(f, err)
	for _, r := range all {
		f.Add(r.HTTPStatus, r.Body())
	}

	f.Add(200, []byte(`{"x":{"count":-1,"zone":[{}]}}`))
	f.Add(200, []byte(`{"x":{"count":"2","zone":[null]}}`))
	var status int
	var body []byte
	c, err := NewClient(&Config{APIURL: "http://h" + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey},
		WithJitter(noJitter),
		WithTransport(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status,
				Header:     http.Header{},
				Body:       io.NopCloser(strings.NewReader(string(body))),
				Request:    r,
			}, nil
		})))

	require.NoError(f, err)
	reads := []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := c.ListVirtualMachines(ctx, VMQuery{}); return err },
		func(ctx context.Context) error { _, err := c.ListNetworks(ctx, NetworkQuery{}); return err },
		func(ctx context.Context) error { _, err := c.ListPublicIPs(ctx, PublicIPQuery{}); return err },
		func(ctx context.Context) error {
			_, err := c.ListLoadBalancerRules(ctx, LoadBalancerRuleQuery{})
			return err
		},
		func(ctx context.Context) error { _, err := c.ListLoadBalancerMembers(ctx, "r"); return err },
		func(ctx context.Context) error { _, err := c.ListFirewallRules(ctx, FirewallRuleQuery{}); return err },
		func(ctx context.Context) error { _, err := c.ListZones(ctx); return err },
		func(ctx context.Context) error { _, err := c.ListAPIs(ctx); return err },
		func(ctx context.Context) error { _, err := c.Capabilities(ctx); return err },
		func(ctx context.Context) error { _, err := c.QueryJob(ctx, "j"); return err },
		func(ctx context.Context) error { _, err := c.AssociateIP(ctx, AssociateIPRequest{}); return err },
		func(ctx context.Context) error { _, err := c.Delete(ctx, "deleteLoadBalancerRule", "r"); return err },
	}

	f.Fuzz(func(t *testing.T, code int, answer []byte) {
		if code < 100 || code > 999 || code == http.StatusTooManyRequests {
			return // a 429 makes the client wait
		}
		status, body = code, answer
		for _, read := range reads {
			if err := read(t.Context()); err != nil {
				requireNoSecrets(t, asError(t, err).Error())
			}
		}
	})
}
