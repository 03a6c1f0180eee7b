// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong with a certificate is said: an authority helps against one of the ways alone.
func TestTLSReasons(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"has expired":         x509.CertificateInvalidError{Reason: x509.Expired},
		"another host name":   x509.HostnameError{Certificate: &x509.Certificate{}},
		"does not speak TLS":  tls.RecordHeaderError{},
		"ca-file or ssl-no-v": x509.UnknownAuthorityError{},
	} {
		fault := TLSFaultOf(fmt.Errorf("get: %w", err))
		require.NotEqual(t, TLSFine, fault, want)
		require.Contains(t, fault.text(), want)
	}
	require.Equal(t, TLSFine, TLSFaultOf(io.EOF))
}
