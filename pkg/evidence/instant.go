// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import "time"

// Instant is a point in time that CloudStack has shown, such as when an account acquired an address. Instants that are
// equal are the same point in time, also where a management server of another time zone has written it.
type Instant string

// layout is how CloudStack writes times, and how Instants are written, in UTC.
const layout = "2006-01-02T15:04:05-0700"

// InstantOf reads a time as CloudStack writes it, in the time zone of the management server. A text that is no such
// time equals itself alone.
func InstantOf(text string) Instant {
	for _, known := range []string{layout, time.RFC3339} {
		if at, err := time.Parse(known, text); err == nil {
			return Instant(at.UTC().Format(layout))
		}
	}
	return Instant(text)
}

// Time is the Instant by the clock of the management server; zero for a text that is no time.
func (i Instant) Time() time.Time {
	at, err := time.Parse(layout, string(i))
	if err != nil {
		return time.Time{}
	}
	return at
}
