// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lean reads long lists of the CloudStack API: it keeps what the caller's type has, reads an answer once and
// copies nothing of the rest. Of a list of 1,000 VMs that is a twentieth.
package lean

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CloudStack's answers have neither, and to look for them takes a quarter of the time.
var options = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Page reads one page of a list from an answer {"x":{"count":n,"object":[...]}}. count is -1 when the answer has none,
// which for CloudStack means an empty list. body is not kept. Texts are those of the Strings, where they have them.
func Page[T any](body []byte, object string, texts *Strings) (items []T, count int, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), options, json.WithUnmarshalers(texts.unmarshaler))
	count = -1
	odd, found := "", false
	if err := open(d, '{'); err != nil {
		return nil, 0, err
	}
	if _, err := d.ReadToken(); err != nil { // the name of the answer
		return nil, 0, err
	}
	if err := open(d, '{'); err != nil {
		return nil, 0, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, 0, err
		}
		switch key := name.String(); key {
		case "count":
			n, err := d.ReadValue()
			if err != nil {
				return nil, 0, err
			}
			if count, err = strconv.Atoi(strings.Trim(string(n), `"`)); err != nil || count < 0 {
				return nil, 0, errors.New("count is no number")
			}
		case object:
			found = true
			if items, err = array[T](d, count); err != nil {
				return nil, 0, fmt.Errorf("%s cannot be read: %w", object, err)
			}
		default:
			odd = key
			if err := d.SkipValue(); err != nil {
				return nil, 0, err
			}
		}
	}
	// What follows must be complete too: an answer that was cut off is no list.
	for range 2 {
		if err := open(d, '}'); err != nil {
			return nil, 0, err
		}
	}
	if odd != "" && !found {
		return nil, 0, errors.New("the answer has no " + object)
	}
	return items, count, nil
}

// longest is how many items are made room for before they are read.
const longest = 5000

func array[T any](d *jsontext.Decoder, count int) ([]T, error) {
	if err := open(d, '['); err != nil {
		return nil, err
	}
	var items []T
	if count > 0 {
		items = make([]T, 0, min(count, longest))
	}
	for d.PeekKind() != ']' {
		var item T
		if err := json.UnmarshalDecode(d, &item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, open(d, ']')
}

// open reads a token that has to be of a kind.
func open(d *jsontext.Decoder, kind jsontext.Kind) error {
	t, err := d.ReadToken()
	if err == nil && t.Kind() != kind {
		err = fmt.Errorf("%s in place of %s", t.Kind(), kind)
	}
	return err
}

// Strings has texts that came before, ids most of all, so that all lists of the process share one string for each. It
// forgets those that come no more. It is safe for concurrent use.
type Strings struct {
	unmarshaler *json.Unmarshalers

	mu          sync.Mutex
	young, aged map[string]string
}

const (
	generation = 1 << 16 // texts that come before those that came in the generation before are forgotten
	maxText    = 64      // bytes; longer texts are rarely the same
)

// NewStrings returns Strings that have nothing.
func NewStrings() *Strings {
	s := &Strings{young: map[string]string{}}
	s.unmarshaler = json.UnmarshalFromFunc(s.read)
	return s
}

func (s *Strings) read(d *jsontext.Decoder, out *string) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	switch {
	case v.Kind() == 'n':
		*out = ""
		return nil
	case v.Kind() != '"':
		return fmt.Errorf("%s in place of a string", v.Kind())
	}
	text := []byte(v[1 : len(v)-1])
	if bytes.IndexByte(text, '\\') >= 0 {
		if text, err = jsontext.AppendUnquote(nil, v); err != nil {
			return err
		}
	}
	*out = s.get(text)
	return nil
}

func (s *Strings) get(text []byte) string {
	if len(text) > maxText {
		return string(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.young[string(text)]; ok {
		return known
	}
	known, ok := s.aged[string(text)]
	if !ok {
		known = string(text)
	}
	if len(s.young) >= generation {
		s.young, s.aged = map[string]string{}, s.young
	}
	s.young[known] = known
	return known
}
