// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lean reads long lists of the CloudStack API: it keeps what the caller's type has, reads an answer once and
// copies nothing of the rest. Of a list of 1,000 VMs that is a twentieth.
package lean

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CloudStack's answers have neither, and to look for them takes a quarter of the time.
var options = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Page reads one page of a list from an answer {"x":{"count":n,"object":[...]}}. count is -1 when the answer has none,
// which for CloudStack means an empty list. Texts are those of the Strings, where they have them.
func Page[T any](answer io.Reader, object string, texts *Strings) (items []T, count int, err error) {
	decoders := json.JoinOptions(options, json.WithUnmarshalers(texts.unmarshaler))
	count, err = Scan(answer, object, texts, func(s *Scanner, n int) error {
		raw, err := s.value()
		if err != nil {
			return err
		}
		if items == nil && n > 0 {
			items = make([]T, 0, min(n, longest))
		}
		var item T
		err = json.Unmarshal(raw, &item, decoders)
		items = append(items, item)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return items, count, nil
}

// longest is how many items are made room for before they are read.
const longest = 5000

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
	*out, err = s.unquote(v)
	return err
}

// unquote returns the text of a JSON string with its quotes.
func (s *Strings) unquote(quoted []byte) (string, error) {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var err error
		if text, err = jsontext.AppendUnquote(nil, quoted); err != nil {
			return "", err
		}
	}
	return s.get(text), nil
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
