// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command certificates writes Mozilla's root certificates to a file, for the images of a release and the Dockerfile.
package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "certificates: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: certificates FILE")
	}
	return os.WriteFile(args[0], roots(), 0o644) //nolint:gosec // public certificates, in a file that the caller names
}

// roots returns the root certificates in PEM format. It omits roots that are trusted only under conditions (for
// certificates issued before a date), because a PEM file cannot express the conditions.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// a buffer accepts all writes
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return out.Bytes()
}
