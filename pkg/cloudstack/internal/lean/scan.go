// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lean

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
)

// Scanner reads JSON for callers that need little of it. What they skip is looked at only as far as is necessary to find
// its end, which makes it several times as fast as a decoder; an answer that was cut off is noticed all the same. It holds a
// window of the answer, which is as long as the longest value that is read as a whole.
type Scanner struct {
	from   io.Reader
	b      []byte // the window
	i      int    // of the next byte in the window
	before int    // how much of the answer came before the window
	kept   int    // from here on the window is still needed; -1: from i on
	name   []byte // of the member that is being read
	texts  *Strings
}

// windows are those of Scanners that have ended.
var windows = sync.Pool{New: func() any { return new(make([]byte, 0, windowSize)) }}

const (
	windowSize  = 32 << 10
	largeWindow = 8 * windowSize // a larger one is not used again
)

// Scan reads an answer as Page does, and has item read each item; count is what the answer says before its items, or -1.
func Scan(answer io.Reader, object string, texts *Strings, item func(s *Scanner, count int) error) (count int, err error) {
	window, _ := windows.Get().(*[]byte)
	s := &Scanner{from: answer, b: (*window)[:0], kept: -1, texts: texts}
	defer func() {
		if *window = s.b; cap(s.b) <= largeWindow {
			windows.Put(window)
		}
	}()
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

// more reads on. It reports false at the end of the answer, or when it cannot be read.
func (s *Scanner) more() bool {
	from := s.i
	if s.kept >= 0 {
		from = s.kept
	}
	if from > 0 {
		s.b = s.b[:copy(s.b, s.b[from:])]
		s.before, s.i = s.before+from, s.i-from
		if s.kept >= 0 {
			s.kept = 0
		}
	}
	if len(s.b) == cap(s.b) {
		s.b = slices.Grow(s.b, max(windowSize, len(s.b)))
	}
	n, err := io.ReadAtLeast(s.from, s.b[len(s.b):cap(s.b)], 1)
	s.b = s.b[:len(s.b)+n]
	return err == nil
}

// Object reads an object. member is called with each name and reads the value, or leaves it to be skipped. The name is
// valid until then.
func (s *Scanner) Object(member func(name []byte) error) error {
	return s.list('{', '}', func() error {
		name, err := s.quoted()
		if err != nil {
			return err
		}
		s.name = append(s.name[:0], name[1:len(name)-1]...)
		if err := s.expect(':'); err != nil {
			return err
		}
		s.peek()
		begin := s.before + s.i
		if err := member(s.name); err != nil || s.before+s.i > begin {
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
	for s.i < len(s.b) || s.more() {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
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

// quoted reads a string with its quotes and escapes. It is valid until anything more is read.
func (s *Scanner) quoted() ([]byte, error) {
	if c := s.peek(); c != '"' {
		return nil, s.expect('"')
	}
	for length := 1; ; length++ { // up to the quote that is looked at
		n := bytes.IndexByte(s.b[s.i+length:], '"')
		for n < 0 {
			length = len(s.b) - s.i
			if !s.more() {
				return nil, io.ErrUnexpectedEOF
			}
			n = bytes.IndexByte(s.b[s.i+length:], '"')
		}
		length += n
		escapes := 0
		for s.b[s.i+length-1-escapes] == '\\' { // ends at the first quote at the latest
			escapes++
		}
		if escapes%2 == 0 {
			v := s.b[s.i : s.i+length+1]
			s.i += length + 1
			return v, nil
		}
	}
}

// value reads any value as it is written. It is valid until anything more is read.
func (s *Scanner) value() ([]byte, error) {
	s.peek()
	s.kept = s.i
	err := s.skip()
	v := s.b[s.kept:s.i]
	s.kept = -1
	return v, err
}

func (s *Scanner) skip() (err error) {
	switch c := s.peek(); c {
	case 0:
		return io.ErrUnexpectedEOF
	case '"':
		_, err = s.quoted()
	case '{', '[':
		s.i++
		if err = s.Rest(); err == nil {
			s.i++
		}
	case '}', ']', ',', ':':
		err = fmt.Errorf("%c in place of a value", c)
	default:
		s.literal()
	}
	return err
}

// Rest skips what is left of the object or array that is being read.
func (s *Scanner) Rest() error {
	for depth := 0; s.i < len(s.b) || s.more(); s.i++ {
		switch s.b[s.i] {
		case '"':
			if _, err := s.quoted(); err != nil {
				return err
			}
			s.i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return nil
			}
			depth--
		}
	}
	return io.ErrUnexpectedEOF
}

// literal moves behind a number, true, false or null.
func (s *Scanner) literal() {
	for s.i < len(s.b) || s.more() {
		switch s.b[s.i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return
		}
		s.i++
	}
}
