// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import "time"

// Instant is a point in time that CloudStack has shown, such as when an account acquired an address. Equal Instants are
// the same point in time, even if management servers in different time zones have written them.
type Instant string

// layout is the format of times in CloudStack, and of Instants, which are in UTC.
const layout = "2006-01-02T15:04:05-0700"

// InstantOf parses a time of CloudStack, which is in the time zone of the management server. A text that is not a time
// becomes an Instant that equals only the same text.
func InstantOf(text string) Instant {
	for _, known := range []string{layout, time.RFC3339} {
		if at, err := time.Parse(known, text); err == nil {
			return Instant(at.UTC().Format(layout))
		}
	}
	return Instant(text)
}

// Time returns the Instant as a time; zero if it is not one.
func (i Instant) Time() time.Time {
	at, err := time.Parse(layout, string(i))
	if err != nil {
		return time.Time{}
	}
	return at
}
