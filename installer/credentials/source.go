// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// maxSecret bounds what is read as one secret.
const maxSecret = 64 << 10

// ReadSecretFile reads one secret from a file; a trailing line break does not
// belong to it.
func ReadSecretFile(flag, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		var perr *os.PathError
		if errors.As(err, &perr) {
			err = perr.Err
		}
		return "", &Error{What: fmt.Sprintf("%s: cannot read %s", flag, path), Fix: "name a file that holds the secret and nothing else", Code: 2, Err: err}
	}
	defer f.Close() //nolint:errcheck // read only
	return ReadSecretFrom(flag, f)
}

// ReadSecretFrom reads one secret from a stream, up to its end.
func ReadSecretFrom(flag string, r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil {
		return "", &Error{What: flag + ": reading failed", Fix: "pipe or name a file that holds the secret", Code: 2, Err: err}
	}
	secret := strings.TrimRight(string(b), "\r\n")
	switch {
	case len(b) > maxSecret, !utf8.ValidString(secret), strings.ContainsAny(secret, "\r\n\x00"):
		return "", &Error{What: flag + ": that is not one line of text", Fix: "the secret must be the only content", Code: 2}
	case secret == "":
		return "", &Error{What: flag + ": the secret is empty", Fix: "the secret must be the only content", Code: 2}
	}
	return secret, nil
}
