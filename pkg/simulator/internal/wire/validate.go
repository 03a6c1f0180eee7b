// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// BadNetworkDomain is the error of all commands except createDomain for an invalid network domain.
func BadNetworkDomain() *Error {
	return Invalid("Invalid network domain. Total length shouldn't exceed 190 chars. Each domain label must be between 1 and 63 characters long, " +
		"can contain ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-'); can't start or end with \"-\"")
}

var domainLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// ValidDomainName reports whether s is a valid network domain.
func ValidDomainName(s string) bool {
	if len(s) < 1 || len(s) > 190 {
		return false
	}
	return !slices.ContainsFunc(strings.Split(s, "."), func(l string) bool { return !domainLabel.MatchString(l) })
}

// ValidCIDR accepts what a rule's source list may hold: ranges and single addresses of both families.
func ValidCIDR(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

var hostName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]$|^[A-Za-z]$`)

// ValidHostName reports whether a name is a valid host name of a VM.
func ValidHostName(s string) bool { return hostName.MatchString(s) }
