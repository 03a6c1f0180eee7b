// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instant answers at once without a network.
func instant(b *testing.B, body string) *Client {
	b.Helper()
	c, err := NewClient(&Config{APIURL: "http://h" + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey},
		WithTransport(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})))
	require.NoError(b, err)
	return c
}

// BenchmarkCall is what one call costs besides the network: a pooled SDK client,
// form, signature, decoding.
func BenchmarkCall(b *testing.B) {
	c := instant(b, emptyZones)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.ListZones(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewLane is what the pool saves: making an SDK client for each call.
func BenchmarkNewLane(b *testing.B) {
	c := instant(b, emptyZones)
	b.ReportAllocs()
	for b.Loop() {
		newLane(c)
	}
}

func BenchmarkSign(b *testing.B) {
	form := map[string][]string{"command": {"listVirtualMachines"}, "apiKey": {testAPIKey}, "response": {"json"}, "details": {"nics"}, "page": {"1"}, "pagesize": {"500"}}
	b.ReportAllocs()
	for b.Loop() {
		sign(form, testSecretKey)
	}
}

// BenchmarkDecode500VMs reads a full page.
func BenchmarkDecode500VMs(b *testing.B) {
	g := golden(b, "listVirtualMachines.details-nics")
	one := g.body()
	start := bytes.IndexByte(one, '[')
	vm := string(one[start+1 : bytes.LastIndexByte(one, ']')])
	items := make([]string, 500)
	for i := range items {
		items[i] = strings.Replace(vm, "ceddea11-85eb-4d20-bf6c-e56aa6fc8027", fmt.Sprintf("vm-%d", i), 1)
	}
	body := `{"listvirtualmachinesresponse":{"count":500,"virtualmachine":[` + strings.Join(items, ",") + `]}}`
	c := instant(b, body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		vms, err := c.ListVirtualMachines(b.Context(), VMQuery{})
		if err != nil || len(vms) != 500 {
			b.Fatal(len(vms), err)
		}
	}
}
