// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lean

import (
	"errors"
	"io"
)

// Body is an answer that is read while it arrives. It remembers why it could not be read to its end, which is not the fault
// of what it says. Nothing is left of From's limit where the answer is too long.
type Body struct {
	From io.LimitedReader
	Err  error
}

// Read reads on.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.From.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.Err = err
	}
	return n, err
}
