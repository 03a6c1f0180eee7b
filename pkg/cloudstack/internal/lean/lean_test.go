// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lean

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
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
		for arrives, r := range map[string]io.Reader{"at once": strings.NewReader(answer), "byte by byte": iotest.OneByteReader(strings.NewReader(answer))} {
			items, count, err := Page[item](r, "vm", NewStrings())
			if err != nil {
				require.ErrorContains(t, err, want, "%s: %s", arrives, answer)
				continue
			}
			require.Equal(t, want, fmt.Sprint(count, " ", items), "%s: %s", arrives, answer)
		}
	}
}

// Items and values lie anywhere in the windows in which an answer is read, and may be longer than one.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	const n = 3000
	var answer strings.Builder
	answer.WriteString(`{"x":{"count":3000,"vm":[`)
	for i := range n {
		skipped := strings.Repeat(`\"x`, i%7)
		if i == n/2 {
			skipped = strings.Repeat(skipped+`é`, 3*windowSize)
		}
		fmt.Fprintf(&answer, `{"id":"%d","skipped":["%s",{"y":-1.5e%d}],"name":"n%s"},`, i, skipped, i, strings.Repeat(`\n`, i%11))
	}
	whole := strings.TrimSuffix(answer.String(), ",") + "]}}"
	for arrives, r := range map[string]io.Reader{"at once": strings.NewReader(whole), "in halves": iotest.HalfReader(strings.NewReader(whole))} {
		items, count, err := Page[item](r, "vm", NewStrings())
		require.NoError(t, err, arrives)
		require.Equal(t, n, count)
		require.Len(t, items, n)
		for i := range items {
			require.Equal(t, item{ID: strconv.Itoa(i), Name: "n" + strings.Repeat("\n", i%11)}, items[i], arrives)
		}
	}
	_, _, err := Page[item](strings.NewReader(whole[:len(whole)/2]), "vm", NewStrings())
	require.ErrorContains(t, err, "EOF", "cut off")
}

func TestStringsAreShared(t *testing.T) {
	t.Parallel()
	texts := NewStrings()
	body := []byte(`{"x":{"vm":[{"id":"one"},{"id":"` + strings.Repeat("x", maxText+1) + `"}]}}`)
	read := func() []item {
		items, _, err := Page[item](bytes.NewReader(body), "vm", texts)
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
