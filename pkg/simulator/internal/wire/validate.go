// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/netip"
	"regexp"
)

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
