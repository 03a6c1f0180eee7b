// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decoding are the options for answers. CloudStack sends the same value in several forms, by command and release:
// numbers and booleans as text, text as a number, tags as a list, and source ranges as one text. Its answers have
// neither duplicate names nor invalid UTF-8; checking for them takes a quarter of the time.
var decoding = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(readString), json.UnmarshalFromFunc(readInt), json.UnmarshalFromFunc(readBool),
		json.UnmarshalFromFunc(readTags), json.UnmarshalFromFunc(readStrings),
	)))

// readString reads a text, or a number as its text. Of an object it reads what identifies it: its address (secondary
// addresses of a NIC), its id (VMs of a cluster) or its name (commands, providers). Anything else is "".
func readString(d *jsontext.Decoder, out *string) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}

	*out = ""
	switch v.Kind() {
	case '"':
		text := v[1 : len(v)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			if text, err = jsontext.AppendUnquote(nil, v); err != nil {
				return err
			}
		}
		*out = shared.get(text)
	case '0':
		*out = string(v)
	case '{':
		var object struct {
			Address string `json:"ipaddress"`
			ID      string `json:"id"`
			Name    string `json:"name"`
		}
		err = json.Unmarshal(v, &object) // without decoding, whose initialisation refers to readString
		*out = cmp.Or(object.Address, object.ID, object.Name)
	default:
	}

	return err
}

// readInt decodes an integer sent as a number or as text; anything else is 0.
func readInt(d *jsontext.Decoder, out *int) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(bytes.Trim(v, `"`)))
	n, failure := strconv.Atoi(text)
	if failure != nil {
		n = 0
		if f, failure := strconv.ParseFloat(text, 64); failure == nil && f > -1<<31 && f < 1<<31 {
			n = int(f)
		}
	}
	*out = n
	return nil
}

// readBool decodes a boolean sent as a boolean or as text; everything but true is false.
func readBool(d *jsontext.Decoder, out *bool) error {
	v, err := d.ReadValue()
	*out = err == nil && strings.EqualFold(string(bytes.Trim(v, `"`)), "true")
	return err
}

// readTags decodes a list of tags into a map; an empty list is nil. Other maps are left to the JSON package.
func readTags(d *jsontext.Decoder, out *map[string]string) error {
	if d.PeekKind() != '[' {
		return errors.ErrUnsupported
	}

	var tags []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}

	if err := json.UnmarshalDecode(d, &tags); err != nil {
		return err
	}

	*out = nil
	if len(tags) > 0 {
		*out = make(map[string]string, len(tags))
	}

	for _, t := range tags {
		(*out)[t.Key] = t.Value
	}

	return nil
}

// readStrings reads a cidrlist: the ranges of load balancer rules are separated by blanks after the rule was created,
// and by commas after an update. An empty text is an empty list, not nil. Lists are left to the JSON package.
func readStrings(d *jsontext.Decoder, out *[]string) error {
	if d.PeekKind() != '"' {
		return errors.ErrUnsupported
	}
	var text string
	err := readString(d, &text)
	*out = append([]string{}, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })...)
	return err
}

// scan decodes an answer {"x":{"count":n,"object":[...]}} while it arrives, and calls add with each item, which is
// valid until the next call. An error of add ends the scan. count is -1 if the answer has none, which for CloudStack
// means an empty list.
func scan[T any](answer io.Reader, object string, add func(item *T, count int) error) (count int, err error) {
	d := jsontext.NewDecoder(answer, decoding)
	count = -1
	items := func() error {
		if err := open(d, '['); err != nil {
			return err
		}
		var item, zero T
		for d.PeekKind() != ']' {
			item = zero
			if err := json.UnmarshalDecode(d, &item, decoding); err != nil {
				return err
			}
			if err := add(&item, count); err != nil {
				return err
			}
		}
		_, err := d.ReadToken()
		return err
	}

	outer, other, found := 0, false, false
	err = eachMember(d, func([]byte) error {
		if outer++; outer > 1 {
			return d.SkipValue()
		}

		return eachMember(d, func(name []byte) error {
			switch string(name) {
			case "count":
				v, err := d.ReadValue()
				if err != nil {
					return err
				}
				if count, err = strconv.Atoi(string(bytes.Trim(v, `"`))); err != nil || count < 0 {
					return errors.New("count is not a number")
				}
				return nil
			case object:
				found = true
				if err := items(); err != nil {
					return fmt.Errorf("%s cannot be read: %w", object, err)
				}
				return nil
			}
			other = true
			return d.SkipValue()
		})
	})

	switch {
	case err != nil:
		return 0, err
	case outer == 0:
		return 0, errors.New("the answer is empty")
	case other && !found:
		return 0, errors.New("the answer has no " + object)
	}

	return count, nil
}

// eachMember decodes an object. It calls member with each name, which is valid until more is read; member must read or
// skip the value.
func eachMember(d *jsontext.Decoder, member func(name []byte) error) error {
	if err := open(d, '{'); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := member(name[1 : len(name)-1]); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func open(d *jsontext.Decoder, kind jsontext.Kind) error {
	token, err := d.ReadToken()
	if err == nil && token.Kind() != kind {
		err = fmt.Errorf("%s in place of %s", token.Kind(), kind)
	}
	return err
}

const (
	maxSharedText  = 64      // bytes; longer texts are rarely repeated
	maxSharedTexts = 1 << 16 // then the map is cleared
)

// shared deduplicates short texts, mostly IDs, so that all answers in the process use one string for equal texts.
var shared = sharedTexts{known: map[string]string{}}

type sharedTexts struct {
	mu    sync.Mutex
	known map[string]string
}

func (s *sharedTexts) get(text []byte) string {
	if len(text) > maxSharedText {
		return string(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[string(text)]; ok {
		return known
	}
	if len(s.known) >= maxSharedTexts {
		clear(s.known)
	}
	known := string(text)
	s.known[known] = known
	return known
}
