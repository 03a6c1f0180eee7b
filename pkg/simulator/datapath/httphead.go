// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// HAProxy's default limits for the head of a request or an answer.
const (
	bufferSize = 16 << 10
	headLimit  = bufferSize - 1<<10 // the rest is reserved for fields that the load balancer adds
	fieldLimit = 101
)

var (
	errHeadTooLarge = fmt.Errorf("the head has more than %d bytes or %d fields", headLimit, fieldLimit)
	errName         = errors.New("a field name contains an invalid character")
	errNotHTTP1     = errors.New("not HTTP/1.0 or HTTP/1.1")
)

// awaitHead waits until the buffer contains a complete head. It returns io.EOF if no data arrived.
func awaitHead(in *bufio.Reader) error {
	for {
		if b, _ := in.Peek(in.Buffered()); headEnds(b) {
			return nil
		} else if len(b) >= headLimit {
			return errHeadTooLarge
		}
		if b, err := in.Peek(in.Buffered() + 1); err != nil {
			if errors.Is(err, io.EOF) && len(b) > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

// headEnds reports whether the empty line at the end of the head is within the limit.
func headEnds(b []byte) bool {
	b = b[:min(len(b), headLimit)]
	return bytes.Contains(b, []byte("\n\r\n")) || bytes.Contains(b, []byte("\n\n"))
}

// readRequest reads the head of a request and skips empty lines before it. The body is streamed later.
func readRequest(in *bufio.Reader) (*http.Request, error) {
	for {
		b, err := in.Peek(1)
		if err != nil {
			return nil, err
		}
		if b[0] != '\r' && b[0] != '\n' {
			break
		}
		_, _ = in.Discard(1) // cannot fail: Peek returned the byte
	}
	if err := awaitHead(in); err != nil {
		return nil, err
	}
	req, err := http.ReadRequest(in)
	switch {
	case err != nil:
		return nil, err
	case req.ProtoMajor != 1:
		return nil, errNotHTTP1
	}
	return req, checkFields(req.Header)
}

// readAnswer reads the head of an answer to a request.
func readAnswer(in *bufio.Reader, req *http.Request) (*http.Response, error) {
	if err := awaitHead(in); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(in, req)
	switch {
	case err != nil:
		return nil, err
	case resp.ProtoMajor != 1:
		return nil, errNotHTTP1
	}
	return resp, checkFields(resp.Header)
}

// checkFields checks what net/http does not: invalid characters in field names, and the number of fields.
func checkFields(h http.Header) error {
	n := 0
	for name, values := range h {
		if strings.ContainsFunc(name, notInName) {
			return errName
		}
		n += len(values)
	}
	if n > fieldLimit {
		return errHeadTooLarge
	}
	return nil
}

// notInName reports whether a character is invalid in a field name.
func notInName(c rune) bool {
	return c <= ' ' || c > '~' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", c)
}

// writeHead writes the first line and the fields in one write.
func writeHead(w io.Writer, first string, h http.Header) error {
	var b bytes.Buffer
	b.WriteString(first + "\r\n")
	writeFields(&b, h)
	_, err := w.Write(b.Bytes())
	return err
}

// writeTrailer ends a chunked body.
func writeTrailer(w io.Writer, h http.Header) error {
	var b bytes.Buffer
	writeFields(&b, h)
	_, err := w.Write(b.Bytes())
	return err
}

// writeFields writes the fields with lower-case names, like HAProxy, and an empty line.
func writeFields(b *bytes.Buffer, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			b.WriteString(strings.ToLower(name) + ": " + value + "\r\n")
		}
	}
	b.WriteString("\r\n")
}

// restoreFraming restores the fields that net/http removes from the head.
func restoreFraming(h http.Header, encoding []string, trailer http.Header) {
	if len(encoding) > 0 {
		h["Transfer-Encoding"] = []string{strings.Join(encoding, ", ")}
	}
	if len(trailer) > 0 {
		h["Trailer"] = []string{strings.Join(slices.Sorted(maps.Keys(trailer)), ", ")}
	}
}

// upgrades reports whether a head requests or confirms another protocol.
func upgrades(h http.Header) bool {
	if h.Get("Upgrade") == "" {
		return false
	}
	for _, line := range h["Connection"] {
		for _, word := range strings.Split(line, ",") {
			if strings.EqualFold(strings.TrimSpace(word), "upgrade") {
				return true
			}
		}
	}
	return false
}

// setConnection sets the Connection field like httpclose: to close, or to upgrade if requested.
func setConnection(h http.Header) {
	word := "close"
	if upgrades(h) {
		word = "upgrade"
	}
	h["Connection"] = []string{word}
}
