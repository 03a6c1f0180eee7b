// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lean

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Scanner reads JSON for callers that need little of it. What they skip is looked at only as far as is necessary to find
// its end, which makes it several times as fast as a decoder; an answer that was cut off is noticed all the same.
type Scanner struct {
	b     []byte
	i     int // of the next byte
	texts *Strings
}

// Scan reads an answer as Page does, and has item read each item; count is what the answer says before its items, or -1.
func Scan(body []byte, object string, texts *Strings, item func(s *Scanner, count int) error) (count int, err error) {
	s := &Scanner{b: body, texts: texts}
	count = -1
	odd, found := false, false
	list := func(name []byte) error {
		switch string(name) {
		case "count":
			n, err := s.value()
			if err != nil {
				return err
			}
			if count, err = strconv.Atoi(string(bytes.Trim(n, `"`))); err != nil || count < 0 {
				return errors.New("count is no number")
			}
		case object:
			found = true
			if err := s.Array(func() error { return item(s, count) }); err != nil {
				return fmt.Errorf("%s cannot be read: %w", object, err)
			}
		default:
			odd = true
		}
		return nil
	}
	first := true
	err = s.Object(func([]byte) error {
		if !first {
			return nil
		}
		first = false
		return s.Object(list)
	})
	switch {
	case err != nil:
		return 0, err
	case first:
		return 0, errors.New("the answer is empty")
	case odd && !found:
		return 0, errors.New("the answer has no " + object)
	}
	return count, nil
}

// Object reads an object. member is called with each name and reads the value, or leaves it to be skipped. The name is
// valid until then.
func (s *Scanner) Object(member func(name []byte) error) error {
	return s.list('{', '}', func() error {
		name, err := s.quoted()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		s.peek()
		before := s.i
		if err := member(name[1 : len(name)-1]); err != nil || s.i > before {
			return err
		}
		return s.skip()
	})
}

// Array reads an array. element reads each element.
func (s *Scanner) Array(element func() error) error { return s.list('[', ']', element) }

// String reads a string; null is the empty one.
func (s *Scanner) String() (string, error) {
	if s.peek() == 'n' {
		return "", s.skip()
	}
	v, err := s.quoted()
	if err != nil {
		return "", err
	}
	return s.texts.unquote(v)
}

func (s *Scanner) list(begin, end byte, element func() error) error {
	if err := s.expect(begin); err != nil {
		return err
	}
	if s.peek() == end {
		s.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.peek() == end {
			s.i++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// peek returns the next byte that is no space; 0 at the end.
func (s *Scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *Scanner) expect(c byte) error {
	switch found := s.peek(); found {
	case c:
		s.i++
		return nil
	case 0:
		return io.ErrUnexpectedEOF
	default:
		return fmt.Errorf("%c in place of %c", found, c)
	}
}

// quoted reads a string with its quotes and escapes.
func (s *Scanner) quoted() ([]byte, error) {
	if c := s.peek(); c != '"' {
		return nil, s.expect('"')
	}
	for end := s.i + 1; ; end++ {
		n := bytes.IndexByte(s.b[end:], '"')
		if n < 0 {
			return nil, io.ErrUnexpectedEOF
		}
		end += n
		escapes := 0
		for s.b[end-1-escapes] == '\\' { // ends at the first quote at the latest
			escapes++
		}
		if escapes%2 == 0 {
			v := s.b[s.i : end+1]
			s.i = end + 1
			return v, nil
		}
	}
}

// value reads any value as it is written.
func (s *Scanner) value() ([]byte, error) {
	s.peek()
	begin := s.i
	err := s.skip()
	return s.b[begin:s.i], err
}

func (s *Scanner) skip() error {
	for depth := 0; ; {
		switch s.peek() {
		case 0:
			return io.ErrUnexpectedEOF
		case '"':
			if _, err := s.quoted(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			if depth == 0 {
				return fmt.Errorf("%c in place of a value", s.b[s.i])
			}
			depth--
			s.i++
		case ',', ':':
			if depth == 0 {
				return fmt.Errorf("%c in place of a value", s.b[s.i])
			}
			s.i++
			continue
		default:
			s.literal()
		}
		if depth == 0 {
			return nil
		}
	}
}

// literal moves behind a number, true, false or null.
func (s *Scanner) literal() {
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return
		}
	}
}
