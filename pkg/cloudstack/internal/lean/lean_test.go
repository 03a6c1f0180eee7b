// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lean

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

type item struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	NICs []struct {
		IP string `json:"ipaddress"`
	} `json:"nic"`
}

func TestPage(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"x":{"count":2,"vm":[{"id":"1","other":{"id":[1,"2"]},"nic":[{"ipaddress":"10.0.0.1"},{}]},{"id":"\u0032\n","name":null}]}}`: "2 [{1  [{10.0.0.1} {}]} {2\n  []}]",
		` { "x" : { "vm" : [ {"id":"1"} ] , "count" : "7" } } `:                                                                        "7 [{1  []}]",
		`{"x":{"count":1,"new":{},"vm":[{"name":"é","name":"b"}]}}`:                                                                    "1 [{ b []}]",
		`{"x":{}}`:                           "-1 []",
		`{"x":{"count":0}}`:                  "0 []",
		`{"x":{"count":1,"host":[]}}`:        "the answer has no vm",
		`{"x":{"count":-1,"vm":[]}}`:         "count is no number",
		`{"x":{"count":1,"vm":[{"id":"1"}]}`: "EOF",
		`{"x":{"count":1,"vm":[{"id":"1"`:    "EOF",
		`{"x":{"vm":[{"id":1}]}}`:            "vm cannot be read: ",
		`{"x":{"vm":{"id":"1"}}}`:            "vm cannot be read: { in place of [",
		`{"x":[]}`:                           "in place of {",
		`[]`:                                 "in place of {",
		``:                                   "EOF",
		`{}`:                                 "the answer is empty",
		`{"x":{"count":1,"vm":[{"id":"1"}]},"y":[{"a":"\"}\\"}],"z":-1.5e3}`: "1 [{1  []}]",
		`{"x":{"count":1,"vm":[{"id":"\\","name":"\""}]}}`:                   "1 [{\\ \" []}]",
		`{"x":{"count":1,"vm":[}]}`:                                          "vm cannot be read: } in place of a value",
		`{"x":{"count":1 "vm":[]}}`:                                          "in place of ,",
	} {
		items, count, err := Page[item]([]byte(answer), "vm", NewStrings())
		if err != nil {
			require.ErrorContains(t, err, want, answer)
			continue
		}
		require.Equal(t, want, fmt.Sprint(count, " ", items), answer)
	}
}

func TestStringsAreShared(t *testing.T) {
	t.Parallel()
	texts := NewStrings()
	body := []byte(`{"x":{"vm":[{"id":"one"},{"id":"` + strings.Repeat("x", maxText+1) + `"}]}}`)
	read := func() []item {
		items, _, err := Page[item](body, "vm", texts)
		require.NoError(t, err)
		return items
	}
	same := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	first, second := read(), read()
	require.True(t, same(first[0].ID, second[0].ID))
	require.False(t, same(first[1].ID, second[1].ID))
	for i := range generation {
		texts.get(fmt.Append(nil, i))
	}
	require.True(t, same(first[0].ID, read()[0].ID), "used since")
	for i := range 2 * generation {
		texts.get(fmt.Append(nil, i, " again"))
	}
	require.False(t, same(first[0].ID, read()[0].ID), "what comes no more is forgotten")
	require.LessOrEqual(t, len(texts.young)+len(texts.aged), 2*generation)
}
