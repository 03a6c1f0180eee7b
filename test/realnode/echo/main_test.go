// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"PROXY TCP4 198.51.100.7 203.0.113.9 40000 80\r\n", "198.51.100.7:40000"},
		{"PROXY TCP6 2001:db8::1 2001:db8::2 40000 80\r\n", "[2001:db8::1]:40000"},
		{"PROXY TCP4 198.51.100.7 203.0.113.9 40000 80\n", ""},
		{"PROXY UNKNOWN\r\n", ""},
		{"GET / HTTP/1.1\r\n", ""},
	} {
		got, err := parse(c.line)
		if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
			t.Errorf("parse(%q) = %v, %v; want %q", c.line, got, err, c.want)
		}
	}
}

func TestEndpointsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []endpoint
	}{
		{nil, []endpoint{{address: ":8080"}, {":8081", everyClient}}},
		{[]string{"/nginx-ingress-controller", "--configmap=x"}, []endpoint{{":80", everyClient}, {":443", everyClient}, {address: ":10254"}}},
		{
			[]string{"--entrypoints.web.address=:8000", "--entrypoints.web.proxyprotocol.trustedips=10.1.1.0/24", "--entrypoints.web.http.tls=true", "--ping=true"},
			[]endpoint{{address: ":8080"}, {":8000", []netip.Prefix{netip.MustParsePrefix("10.1.1.0/24")}}},
		},
		{[]string{"--entrypoints.web.proxyprotocol.trustedips=10.1.1.0/24"}, nil},
		{[]string{"--ping"}, nil},
	} {
		got, err := endpointsFor(c.args)
		if (err != nil) != (c.want == nil) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("endpointsFor(%q) = %v, %v; want %v", c.args, got, err, c.want)
		}
	}
}
