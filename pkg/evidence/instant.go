// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import "time"

// Instant is a point in time that CloudStack has reported, such as when an account acquired an address. Equal Instants
// are the same point in time, even if management servers in different time zones reported them.
type Instant string

// layout is the format in which CloudStack writes times. Instants use it too, in UTC.
const layout = "2006-01-02T15:04:05-0700"

// InstantOf parses a time as CloudStack writes it, in the time zone of the management server, or with Z for UTC. A text
// that is not such a time is returned unchanged.
func InstantOf(text string) Instant {
	at, err := time.Parse("2006-01-02T15:04:05Z0700", text)
	if err != nil {
		return Instant(text)
	}
	return Instant(at.UTC().Format(layout))
}

// Time returns the Instant as a time; zero if the text is no time.
func (i Instant) Time() time.Time {
	at, err := time.Parse(layout, string(i))
	if err != nil {
		return time.Time{}
	}
	return at
}
