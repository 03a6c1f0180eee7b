// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unsafe"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

type item struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	NICs []struct {
		IP string `json:"ipaddress"`
	} `json:"nic"`
}

func page(answer io.Reader) (items []item, count int, err error) {
	count, err = scan(answer, "vm", func(i *item, _ int) error {
		items = append(items, *i)
		return nil
	})
	return items, count, err
}

func TestScan(t *testing.T) {
	t.Parallel()

	for answer, want := range map[string]string{
		`{"x":{"count":2,"vm":[{"id":"1","other":{"id":[1,"2"]},"nic":[{"ipaddress":"10.0.0.1"},{}]},{"id":"\u0032\n","name":null}]}}`: "2 [{1  [{10.0.0.1} {}]} {2\n  []}]",
		` { "x" : { "vm" : [ {"id":"1"} ] , "count" : "7" } } `:                                                                        "7 [{1  []}]",
		`{"x":{"count":1,"new":{},"vm":[{"name":"é","name":"b"}]}}`:                                                                    "1 [{ b []}]",
		`{"x":{}}`:                           "-1 []",
		`{"x":{"count":0}}`:                  "0 []",
		`{"x":{"count":1,"host":[]}}`:        "the answer has no vm",
		`{"x":{"count":-1,"vm":[]}}`:         "count is not a number",
		`{"x":{"count":1,"vm":[{"id":"1"}]}`: "EOF",
		`{"x":{"count":1,"vm":[{"id":"1"`:    "EOF",
		`{"x":{"vm":[{"id":1}]}}`:            "-1 [{1  []}]",
		`{"x":{"vm":{"id":"1"}}}`:            "vm cannot be read: { in place of [",
		`{"x":[]}`:                           "in place of {",
		`[]`:                                 "in place of {",
		``:                                   "EOF",
		`{}`:                                 "the answer is empty",
		`{"x":{"count":1,"vm":[{"id":"1"}]},"y":[{"a":"\"}\\"}],"z":-1.5e3}`: "1 [{1  []}]",
		`{"x":{"count":1,"vm":[{"id":"\\","name":"\""}]}}`:                   "1 [{\\ \" []}]",
		`{"x":{"count":1,"vm":[}]}`:                                          "vm cannot be read: ",
		`{"x":{"count":1 "vm":[]}}`:                                          "after object value",
	} {
		for arrives, r := range map[string]io.Reader{
			"at once":      strings.NewReader(answer),
			"byte by byte": iotest.OneByteReader(strings.NewReader(answer)),
		} {
			items, count, err := page(r)
			if err != nil {
				require.ErrorContains(t, err, want, "%s: %s", arrives, answer)
				continue
			}
			require.Equal(t, want, fmt.Sprint(count, " ", items), "%s: %s", arrives, answer)
		}
	}
}

// CloudStack sends the same value in several forms, depending on the command and the release.
func TestForms(t *testing.T) {
	t.Parallel()
	type forms struct {
		N     int               `json:"n"`
		B     bool              `json:"b"`
		S     string            `json:"s"`
		CIDRs []string          `json:"cidrs"`
		Tags  map[string]string `json:"tags"`
	}

	for text, want := range map[string]forms{
		`{}`: {},
		`{"n":7,"b":true,"s":"x","cidrs":["a","b"],"tags":{"k":"v"}}`: {7, true, "x",
			[]string{"a", "b"}, map[string]string{"k": "v"}},
		`{"n":" 7 ","b":"TRUE","s":7,"cidrs":"a b,c","tags":[{"key":"k","value":2}]}`: {7, true, "7",
			[]string{"a", "b", "c"}, map[string]string{"k": "2"}},
		`{"n":7.9,"b":"x","s":{"ipaddress":"10.0.0.1"},"cidrs":"","tags":[]}`: {7, false, "10.0.0.1",
			[]string{}, nil},
		`{"n":null,"b":null,"s":null,"cidrs":null,"tags":null}`: {},
		`{"n":{},"b":[],"s":[true],"cidrs":[{"ipaddress":"a"},{}],"tags":[{"key":"k"},{}]}`: {
			CIDRs: []string{"a", ""},
			Tags:  map[string]string{"k": "", "": ""},
		},
		`{"n":"1e99","b":1,"s":-1.5}`: {S: "-1.5"},
	} {
		var got forms
		require.NoError(t, jsonv2.Unmarshal([]byte(text), &got, decoding), text)
		require.Equal(t, want, got, text)
	}
}

func TestTextsAreShared(t *testing.T) {
	body := `{"x":{"vm":[{"id":"one"},{"id":"` + strings.Repeat("x", maxSharedText+1) + `"}]}}`
	read := func() []item {
		items, _, err := page(strings.NewReader(body))
		require.NoError(t, err)
		return items
	}
	same := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	first, second := read(), read()
	require.True(t, same(first[0].ID, second[0].ID))
	require.False(t, same(first[1].ID, second[1].ID))
	for i := range 2 * maxSharedTexts {
		shared.get(fmt.Append(nil, i, " of many"))
	}
	require.False(t, same(first[0].ID, read()[0].ID), "what comes no more is forgotten")
	require.LessOrEqual(t, len(shared.known), maxSharedTexts)
}

// manyMembers returns an answer with n members, each with the fields that a real server sends.
func manyMembers(t *testing.T, n int) []byte {
	t.Helper()
	var answer map[string]struct {
		Members []json.RawMessage `json:"lbrulevmidip"`
	}
	require.NoError(t, json.Unmarshal(recording(t, "listLoadBalancerRuleInstances.several-lbvmips").Body(), &answer))
	one := answer["listloadbalancerruleinstancesresponse"].Members[0]
	var id struct {
		VM struct {
			ID string `json:"id"`
		} `json:"loadbalancerruleinstance"`
	}

	require.NoError(t, json.Unmarshal(one, &id))
	var small bytes.Buffer
	require.NoError(t, json.Compact(&small, one))
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, `{"listloadbalancerruleinstancesresponse":{"count":%d,"lbrulevmidip":[`, n)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(bytes.ReplaceAll(small.Bytes(), []byte(id.VM.ID), fmt.Appendf(nil, "00000000-0000-4000-8000-%012d", i)))
	}

	b.WriteString("]}}")
	return b.Bytes()
}

// A long list is decoded while it arrives. If the answer breaks off, the list is requested again and decoded from its
// beginning.
func TestLongListThatBreaksOff(t *testing.T) {
	t.Parallel()
	const n = 1000
	whole := manyMembers(t, n)
	broken := func() io.Reader {
		return io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	for _, tc := range []struct {
		name    string
		answers []func() io.Reader
		err     string
		kind    Kind
	}{
		{name: "once", answers: []func() io.Reader{broken, func() io.Reader { return bytes.NewReader(whole) }}},
		{name: "always", answers: []func() io.Reader{broken}, err: "unexpected EOF", kind: KindTransient},
		{
			name:    "not JSON",
			answers: []func() io.Reader{func() io.Reader { return bytes.NewReader(whole[:len(whole)/2]) }},
			err:     "EOF",
			kind:    KindTransient,
		},
	} {
		tries := 0
		c := clientOf(t, func(r *http.Request) (*http.Response, error) {
			answer := tc.answers[min(tries, len(tc.answers)-1)]()
			tries++
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(answer), Request: r}, nil
		})

		members, err := c.ListLoadBalancerMembers(t.Context(), "r")
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, tc.name)
			require.Equal(t, tc.kind, asError(t, err).Kind)
			continue
		}

		require.NoError(t, err, tc.name)
		require.Len(t, members, n)
		require.Equal(t, 2, tries)
	}
}

// The drift check reads a list of members for each rule. The test limits the cost of such a list in bytes and
// allocations, which are the same on every machine.
func TestMembersAreReadCheaply(t *testing.T) {
	const n = 1000
	body := manyMembers(t, n)
	c := clientOf(t, func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode:    http.StatusOK,
			ContentLength: int64(len(body)),
			Body:          io.NopCloser(bytes.NewReader(body)),
			Request:       r,
		}, nil
	})

	read := func() {
		members, err := c.ListLoadBalancerMembers(t.Context(), "r")
		require.NoError(t, err)
		require.Len(t, members, n)
	}

	const runs = 5
	var before, after runtime.MemStats
	read()
	runtime.ReadMemStats(&before)
	allocations := testing.AllocsPerRun(runs, read)
	runtime.ReadMemStats(&after)
	size := (after.TotalAlloc - before.TotalAlloc) / (runs + 1)
	t.Logf("%.0f allocations, %d bytes", allocations, size)
	require.LessOrEqual(t, allocations, 4.0*n, "23 for each member with encoding/json")
	require.LessOrEqual(t, size, uint64(1<<20), "14 MB with encoding/json")
}

// An answer that never ends does not exhaust the memory.
func TestListsAreBoundedInAll(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]int{"pages as asked for": 0, "huge pages": 60_000} {
		sent := 0
		c := clientOf(t, func(r *http.Request) (*http.Response, error) {
			require.NoError(t, r.ParseForm())
			page, _ := strconv.Atoi(r.Form.Get("page"))
			size, _ := strconv.Atoi(r.Form.Get("pagesize"))
			var b bytes.Buffer
			b.WriteString(`{"listpublicipaddressesresponse":{"count":2000000000,"publicipaddress":[`)
			for i := range max(size, least) {
				fmt.Fprintf(&b, `{"id":"id-%d"},`, (page-1)*size+i)
				sent++
			}

			b.Truncate(b.Len() - 1)
			b.WriteString(`]}}`)
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&b), Request: r}, nil
		})

		list, err := List(t.Context(), c, "listPublicIpAddresses", "publicipaddress", nil,
			func(i *PublicIP) string { return i.ID })
		require.ErrorContains(t, err, "more than 100000 entries", name)
		require.Empty(t, list, name)
		require.LessOrEqual(t, sent, 2*maxEntries, name)
	}
}

func TestBytesOfAListAreCounted(t *testing.T) {
	t.Parallel()
	c := clientOf(t, func(r *http.Request) (*http.Response, error) {
		body := fmt.Sprintf(`{"listvirtualmachinesresponse":{"count":5,"vm":[{"id":"%s"}]}}`, strings.Repeat("x", 600))
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})
	left := &room{entries: 10, bytes: 1000}
	_, _, err := listPage[item](t.Context(), c, "listVirtualMachines", "vm", nil, left)
	require.NoError(t, err)
	_, _, err = listPage[item](t.Context(), c, "listVirtualMachines", "vm", nil, left)
	require.ErrorContains(t, err, "256 MiB")
}
