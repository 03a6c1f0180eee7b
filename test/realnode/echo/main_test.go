// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

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
