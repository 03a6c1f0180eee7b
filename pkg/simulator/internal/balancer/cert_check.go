// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// parseFailed returns an error with the text that CloudStack puts around errors of its parsers.
func parseFailed(format string, v ...any) error {
	return fmt.Errorf("Parsing certificate/key failed: %s", fmt.Sprintf(format, v...)) //nolint:staticcheck // the text of CloudStack
}

// CheckCertificate returns the SHA-256 fingerprint of an uploaded certificate and the pair that terminates TLS. CloudStack takes RSA
// keys; that it refuses all others is its comparison of the names of algorithms.
func CheckCertificate(certificate, key string, now time.Time) (fingerprint string, pair *tls.Certificate, err error) {
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		return "", nil, errors.New("") // a null pointer exception, whose text is empty
	}
	loaded, err := tls.X509KeyPair(pem.EncodeToMemory(block), []byte(key))
	switch {
	case err != nil && strings.Contains(err.Error(), "private key does not match public key"):
		return "", nil, errors.New("Bad public-private key") //nolint:staticcheck // the text of CloudStack
	case err != nil && strings.Contains(err.Error(), "type does not match"):
		return "", nil, errors.New("Public and private key have different algorithms") //nolint:staticcheck // the text of CloudStack
	case err != nil:
		return "", nil, parseFailed("%s", err)
	}
	const javaDate = "Mon Jan 02 15:04:05 MST 2006"
	switch {
	case now.After(loaded.Leaf.NotAfter):
		return "", nil, parseFailed("NotAfter: %s", loaded.Leaf.NotAfter.UTC().Format(javaDate))
	case now.Before(loaded.Leaf.NotBefore):
		return "", nil, parseFailed("NotBefore: %s", loaded.Leaf.NotBefore.UTC().Format(javaDate))
	}
	if _, ok := loaded.PrivateKey.(*rsa.PrivateKey); !ok {
		return "", nil, errors.New("Public and private key have different algorithms") //nolint:staticcheck // the text of CloudStack
	}
	sum := sha256.Sum256(loaded.Leaf.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":"), &loaded, nil
}
