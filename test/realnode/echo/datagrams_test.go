// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET},
		{Name: dnsmessage.MustNewName("b.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
	}}
	b, err := q.Pack()
	require.NoError(t, err)
	answer := resolve("worker-1", b)
	var r dnsmessage.Message
	require.NoError(t, r.Unpack(answer))
	if !r.Response || r.ID != 7 || len(r.Questions) != 2 || len(r.Answers) != 1 || r.Answers[0].Body.(*dnsmessage.TXTResource).TXT[0] != "worker-1" {
		t.Errorf("the answer is %+v", r)
	}
	for _, b := range [][]byte{nil, []byte("no DNS"), answer} {
		if got := resolve("worker-1", b); got != nil {
			t.Errorf("resolve(%q) = %q, want no answer", b, got)
		}
	}
}
