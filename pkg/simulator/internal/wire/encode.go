// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
)

// Encode writes JSON like CloudStack, without HTML escapes.
func Encode(buf *bytes.Buffer, v any) error {
	if l, ok := v.(ListAnswer); ok {
		return l.encode(buf) // not a json.Marshaler, because the encoder would scan the answer a second time
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // Encode ends with a newline
	return nil
}

// Marshal returns v as JSON like CloudStack, without HTML escapes.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	if err := Encode(&buf, v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
