// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flex reads what CloudStack sends in several forms, by command and release.
package flex

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Int reads an integer sent as a JSON number or as a string; CloudStack
// does either, by command and release. Anything else, null included, is 0.
type Int int

// UnmarshalJSON never fails: a number that cannot be read is 0.
func (n *Int) UnmarshalJSON(b []byte) error {
	s := strings.TrimSpace(strings.Trim(string(b), `"`))
	if i, err := strconv.Atoi(s); err == nil {
		*n = Int(i)
		return nil
	}
	*n = 0
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > -1<<31 && f < 1<<31 {
		*n = Int(f)
	}
	return nil
}

// Bool reads a boolean sent as a JSON boolean or as a string.
type Bool bool

// UnmarshalJSON never fails: what is not true is false.
func (f *Bool) UnmarshalJSON(b []byte) error {
	*f = Bool(strings.EqualFold(strings.Trim(string(b), `"`), "true"))
	return nil
}

// String reads a string, or a number as its text.
type String string

// UnmarshalJSON fails only for a broken string; objects and null are "".
func (f *String) UnmarshalJSON(b []byte) error {
	*f = ""
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*f = String(s)
		return nil
	}
	if len(b) > 0 && (b[0] == '-' || '0' <= b[0] && b[0] <= '9') {
		*f = String(b)
	}
	return nil
}

// Tag is a tag inside another object.
type Tag struct {
	Key   string `json:"key"`
	Value String `json:"value"`
}

// TagMap returns the tags by key; nil for none.
func TagMap(tags []Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[t.Key] = string(t.Value)
	}
	return m
}

// SplitCIDRs splits a cidrlist; LB rules have blanks after create and commas
// after update. nil stays nil (never set), "" becomes an empty list.
func SplitCIDRs(s *string) []string {
	if s == nil {
		return nil
	}
	list := strings.FieldsFunc(*s, func(r rune) bool { return r == ',' || r == ' ' })
	if list == nil {
		list = []string{}
	}
	return list
}
