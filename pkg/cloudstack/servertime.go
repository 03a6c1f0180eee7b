// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"net/http"
	"time"
)

// noteTime keeps how far the server's clock was ahead of ours when it answered.
func (c *Client) noteTime(resp *http.Response) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	offset := date.Sub(c.clock.Now().Truncate(time.Second)) // the header knows no fractions
	c.clockOffset.Store(&offset)
}

// ClockOffset is how far the clock of the server is ahead of this machine's, by the Date header of
// its last answer and exact to some seconds; not known before an answer with one.
func (c *Client) ClockOffset() (offset time.Duration, known bool) {
	if d := c.clockOffset.Load(); d != nil {
		return *d, true
	}
	return 0, false
}
