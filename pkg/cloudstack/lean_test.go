// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// What the server has answered is read the same by both ways of reading.
func TestLeanPageReadsWhatListPageReads(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "listVirtualMachines.*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		g := golden(t, strings.TrimSuffix(filepath.Base(file), ".json"))
		c := always(g.reply()).client(t)
		want, wantCount, wantErr := listPage[vmJSON](t.Context(), c, g.Command, "virtualmachine", filter{})
		got, count, err := leanPage[vmJSON](t.Context(), c, g.Command, "virtualmachine", filter{})
		require.Equal(t, wantErr, err, file)
		require.Equal(t, wantCount, count, file)
		require.Equal(t, want, got, file)
	}
}

// manyMembers is an answer with n members, each as a real server shows it.
func manyMembers(t testing.TB, n int) []byte {
	t.Helper()
	var answer map[string]struct {
		Members []json.RawMessage `json:"lbrulevmidip"`
	}
	require.NoError(t, json.Unmarshal(golden(t, "listLoadBalancerRuleInstances.several-lbvmips").body(), &answer))
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

// answering returns a client whose calls have all the same answer, and cost nothing besides.
func answering(t testing.TB, body []byte) *Client {
	t.Helper()
	c, err := NewClient(&Config{APIURL: "http://h" + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey},
		WithTransport(roundTripFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
		})))
	require.NoError(t, err)
	return c
}

// A long list is read while it arrives: one that breaks off is asked for again and read from its beginning, and one that
// never ends is an error.
func TestLongListThatBreaksOff(t *testing.T) {
	t.Parallel()
	const n = 1000
	whole := manyMembers(t, n)
	broken := func() io.Reader {
		return io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	endless := func() io.Reader {
		begin := whole[:bytes.LastIndexByte(whole, ']')]
		return io.MultiReader(bytes.NewReader(begin), io.LimitReader(spaces{}, 33<<20))
	}
	for _, tc := range []struct {
		name    string
		answers []func() io.Reader
		err     string
		kind    Kind
	}{
		{name: "once", answers: []func() io.Reader{broken, func() io.Reader { return bytes.NewReader(whole) }}},
		{name: "always", answers: []func() io.Reader{broken}, err: "unexpected EOF", kind: KindTransient},
		{name: "too long", answers: []func() io.Reader{endless}, err: "larger than 32 MiB", kind: KindInvalid},
		{name: "not JSON", answers: []func() io.Reader{func() io.Reader { return bytes.NewReader(whole[:len(whole)/2]) }}, err: "EOF", kind: KindTransient},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			c, err := NewClient(&Config{APIURL: "http://h" + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey},
				WithJitter(noJitter), WithTransport(roundTripFunc(func(r *http.Request) (*http.Response, error) {
					answer := tc.answers[min(tries, len(tc.answers)-1)]()
					tries++
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(answer), Request: r}, nil
				})))
			require.NoError(t, err)
			members, err := c.ListLoadBalancerMembers(t.Context(), "r")
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.Equal(t, tc.kind, asError(t, err).Kind)
				return
			}
			require.NoError(t, err)
			require.Len(t, members, n)
			require.Equal(t, 2, tries)
		})
	}
}

// spaces is a reader that never ends.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// The cost of a list of members, which a drift round reads for each rule: bytes and allocations, which do not depend on
// the machine.
func TestMembersAreReadCheaply(t *testing.T) {
	const n = 1000
	c := answering(t, manyMembers(t, n))
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

func BenchmarkMembers(b *testing.B) {
	body := manyMembers(b, 1000)
	c := answering(b, body)
	type memberJSON struct {
		VM        vmJSON   `json:"loadbalancerruleinstance"`
		Addresses []string `json:"lbvmipaddresses"`
	}
	b.SetBytes(int64(len(body)))
	b.Run("SDK and encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, err := listPage[memberJSON](b.Context(), c, "listLoadBalancerRuleInstances", "lbrulevmidip", filter{})
			require.NoError(b, err)
		}
	})
	b.Run("lean", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := c.ListLoadBalancerMembers(b.Context(), "r")
			require.NoError(b, err)
		}
	})
	b.Run("none", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			failure := c.exchange(b.Context(), url.Values{"command": {"listX"}}, func(answer io.Reader) error {
				_, err := io.Copy(io.Discard, answer)
				return err
			})
			require.Nil(b, failure)
		}
	})
}
