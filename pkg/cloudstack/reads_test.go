// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Answers that the SDK's types cannot decode: numbers and booleans as text, and arrays of objects where the SDK expects
// strings.
func TestListVirtualMachinesOddities(t *testing.T) {
	t.Parallel()
	body := `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"v","name":"n","state":"Running","hostid":"h","hostname":"kvm-1","affinitygroup":[{"id":"a","name":"spread","type":"host anti-affinity"}],"publicip":"203.0.113.9",
	 "tags":[{"key":"a","value":"1"},{"key":"b","value":2}],
	 "nic":[{"id":"n1","deviceid":"0","isdefault":false,"ip6address":"2001:db8::1","extradhcpoption":[{"id":"x","nicid":"n1","extradhcpoptioncode":66,"extradhcpvalue":"y"}]},
	        {"id":"n3","deviceid":"2","isdefault":false},{"id":"n2","deviceid":1,"isdefault":true,"ipaddress":"10.0.0.2","publicip":"203.0.113.9","secondaryip":[{"id":"s","ipaddress":"10.0.0.3"},{"ipaddress":"2001:db8::3"}]}],
	 "vnfnics":[{"deviceid":0}]}]}}`

	f := always(jsonReply(200, body))
	vms, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{WithOffering: true, WithAffinityGroups: true})
	require.NoError(t, err)
	require.Equal(t, "nics,servoff,affgrp", f.recorded()[0].Form.Get("details"))
	require.Equal(t, []AffinityGroup{{ID: "a", Name: "spread"}}, vms[0].AffinityGroups)
	require.Equal(t, "kvm-1", vms[0].HostName)
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, vms[0].Tags)
	nics := vms[0].NICs
	require.Equal(t, []string{"n2", "n1", "n3"}, []string{nics[0].ID, nics[1].ID, nics[2].ID},
		"the default NIC first, then by device")
	require.Equal(t, []string{"10.0.0.3", "2001:db8::3"}, nics[0].SecondaryIP)
	require.Equal(t, "2001:db8::1", nics[1].IPv6)
}

// vms answers listVirtualMachines with the VMs of these numbers, and a count.
func vms(from, to, count int) reply {
	var items []string
	for i := from; i < to; i++ {
		items = append(items, fmt.Sprintf(`{"id":"vm-%d"}`, i))
	}
	switch {
	case count == 0:
		return jsonReply(200, `{"listvirtualmachinesresponse":{}}`)
	case len(items) == 0:
		return jsonReply(200, fmt.Sprintf(`{"listvirtualmachinesresponse":{"count":%d}}`, count))
	}
	return jsonReply(200,
		fmt.Sprintf(`{"listvirtualmachinesresponse":{"count":%d,"virtualmachine":[%s]}}`, count,
			strings.Join(items, ",")))
}

// pagedVMs answers listVirtualMachines for n VMs as CloudStack pages.
func pagedVMs(n, maxSize int) func(int, url.Values) reply {
	return func(_ int, form url.Values) reply {
		page, _ := strconv.Atoi(form.Get("page"))
		size, _ := strconv.Atoi(form.Get("pagesize"))
		if size > maxSize {
			const text = `{"x":{"errorcode":431,"cserrorcode":4350,"errortext":"Page size can't exceed max allowed page size value: %d"}}`
			return jsonReply(431, fmt.Sprintf(text, maxSize))
		}
		return vms((page-1)*size, min(page*size, n), n)
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ n, max, calls int }{
		{0, 500, 1}, {1, 500, 1}, {499, 500, 1}, {500, 500, 1}, {501, 500, 2}, {998, 500, 2}, {1000, 500, 3},
		{1001, 500, 3}, {2345, 500, 5},
		{10, 3, 6}, // a server with default.page.size=3: one refusal, then five pages
	} {
		t.Run(fmt.Sprintf("%d of at most %d", tc.n, tc.max), func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(pagedVMs(tc.n, tc.max))
			c := f.client(t)
			all, err := c.ListVirtualMachines(t.Context(), VMQuery{})
			require.NoError(t, err)
			require.Len(t, all, tc.n)
			for i, vm := range all {
				require.Equal(t, "vm-"+strconv.Itoa(i), vm.ID)
			}

			require.Len(t, f.recorded(), tc.calls)
			if tc.max < 500 {
				_, err := c.ListVirtualMachines(t.Context(), VMQuery{})
				require.NoError(t, err)
				require.Len(t, f.recorded(), 2*tc.calls-1, "the limit is learnt once")
			}
		})
	}
}

func TestPagingNeverAnswersWithAPart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pages []reply
		kind  Kind
		err   string // empty if all 600 VMs are returned
	}{
		"a page is missing": {[]reply{vms(0, 500, 501), vms(0, 0, 501)}, KindTransient,
			"counts 501 entries but sent 500"},
		"the only page is cut": {[]reply{vms(0, 3, 10), vms(0, 0, 10)}, KindTransient,
			"counts 10 entries but sent 3"},
		"a VM goes while the list is read": {
			pages: []reply{vms(0, 500, 601), vms(499, 600, 600), vms(0, 500, 600), vms(499, 600, 600)},
		},
		"an entry slips to the next page": {
			pages: []reply{vms(0, 500, 600), vms(498, 598, 600), vms(0, 500, 600), vms(499, 600, 600)},
		},
		"one goes and another one comes": {
			pages: []reply{vms(0, 500, 600), vms(500, 601, 600), vms(1, 501, 600), vms(500, 601, 600)},
		},
		"pages that do not overlap": {[]reply{vms(0, 500, 600), vms(501, 601, 600), vms(1, 501, 600),
			vms(501, 601, 600)}, KindTransient, "moved to another page"},
		"an error on a later page": {[]reply{vms(0, 500, 600), jsonReply(531, `{"x":{"errorcode":531}}`)},
			KindNotPermitted, ""},
		"recorded: no paging, cut at 3": {[]reply{replay(recording(t, "smallpage.listVirtualMachines.no-paging"))},
			KindTransient, "not complete"},
		"recorded: past the end of the list": {[]reply{replay(recording(t, "listVirtualMachines.page99-size2"))},
			KindTransient, "not complete"},
		"it never comes to rest": {[]reply{
			vms(0, 500, 601), vms(499, 600, 602), vms(0, 500, 603), vms(499, 600, 604), vms(0, 500, 605),
			vms(499, 600, 606),
		}, KindTransient, "the count changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(func(n int, _ url.Values) reply { return tc.pages[(n-1)%len(tc.pages)] })
			got, err := f.client(t).ListVirtualMachines(t.Context(), VMQuery{})
			if tc.kind != KindUnknown {
				require.True(t, IsKind(err, tc.kind), "%v", err)
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, got, 600)
			require.Len(t, f.recorded(), 4, "the list is read again from its begin")
		})
	}

	zones, err := always(jsonReply(200,
		`{"listzonesresponse":{"zone":[{"id":"a"},{"id":"b"}]}}`)).client(t).ListZones(t.Context())
	require.NoError(t, err, "a list without count")
	require.Len(t, zones, 2)
	cut := always(jsonReply(200, `{"x":{"count":2,"lbrulevmidip":[{"loadbalancerruleinstance":{"id":"a"}}]}}`))
	_, err = cut.client(t).ListLoadBalancerMembers(t.Context(), "r")
	require.True(t, IsKind(err, KindTransient), "%v", err)
}
