// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"encoding/json"
	"strconv"
	"strings"
)

// flexInt reads an integer sent as a JSON number or as a string; CloudStack
// does either, by command and release. Anything else, null included, is 0.
type flexInt int

// UnmarshalJSON never fails: a number that cannot be read is 0.
func (n *flexInt) UnmarshalJSON(b []byte) error {
	s := strings.TrimSpace(strings.Trim(string(b), `"`))
	if i, err := strconv.Atoi(s); err == nil {
		*n = flexInt(i)
		return nil
	}
	*n = 0
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > -1<<31 && f < 1<<31 {
		*n = flexInt(f)
	}
	return nil
}

// flexBool reads a boolean sent as a JSON boolean or as a string.
type flexBool bool

// UnmarshalJSON never fails: what is not true is false.
func (f *flexBool) UnmarshalJSON(b []byte) error {
	*f = flexBool(strings.EqualFold(strings.Trim(string(b), `"`), "true"))
	return nil
}

// flexString reads a string, or a number as its text.
type flexString string

// UnmarshalJSON fails only for a broken string; objects and null are "".
func (f *flexString) UnmarshalJSON(b []byte) error {
	*f = ""
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*f = flexString(s)
		return nil
	}
	if len(b) > 0 && (b[0] == '-' || '0' <= b[0] && b[0] <= '9') {
		*f = flexString(b)
	}
	return nil
}

// tagJSON is a tag inside another object.
type tagJSON struct {
	Key   string     `json:"key"`
	Value flexString `json:"value"`
}

// tagMap is nil for no tags.
func tagMap(tags []tagJSON) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[t.Key] = string(t.Value)
	}
	return m
}

// splitCIDRs splits a cidrlist; LB rules have blanks after create and commas
// after update. nil stays nil (never set), "" becomes an empty list.
func splitCIDRs(s *string) []string {
	if s == nil {
		return nil
	}
	list := strings.FieldsFunc(*s, func(r rune) bool { return r == ',' || r == ' ' })
	if list == nil {
		list = []string{}
	}
	return list
}
