// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// TLSFault is a permanent reason why a TLS connection failed.
type TLSFault int

// TLS faults. Setting ca-file only helps against TLSUntrusted.
const (
	TLSFine      TLSFault = iota // err is not about TLS
	TLSUntrusted                 // the certificate is not signed by a known authority
	TLSExpired                   // or is not valid yet, or the clock here is wrong
	TLSOtherHost                 // the certificate has other names
	TLSAbsent                    // the server does not speak TLS at this port
)

// TLSFaultOf returns the TLSFault of a call's error.
func TLSFaultOf(err error) TLSFault {
	var (
		verification *tls.CertificateVerificationError
		unknown      x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
	)

	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return TLSExpired
	case errors.As(err, &host):
		return TLSOtherHost
	case errors.As(err, &record):
		return TLSAbsent
	case errors.As(err, &verification), errors.As(err, &unknown), errors.As(err, &invalid):
		return TLSUntrusted
	}

	return TLSFine
}

// text describes the fault.
func (f TLSFault) text() string {
	switch f {
	case TLSExpired:
		return "it has expired or is not valid yet, or the clock here is wrong"
	case TLSOtherHost:
		return "it is for another host name than api-url's"
	case TLSAbsent:
		return "there is none: the server does not speak TLS at this port, api-url may have to begin with http://"
	case TLSFine, TLSUntrusted:
	}
	return "ca-file or ssl-no-verify may be needed"
}
