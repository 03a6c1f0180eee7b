// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator"
)

// Defaults of a SourceBased policy.
const (
	stickyExpire = 30 * time.Minute
	stickySize   = 200 << 10
)

// applySticky applies a stickiness policy. CloudStack omits policies with unknown methods from the router's
// configuration.
func (l *Listener) applySticky(p *simulator.RouterSticky) error {
	switch {
	case p == nil:
		return nil
	case strings.EqualFold(p.Method, "LbCookie"):
		l.Cookie = cookieLine(p.Params, l.Public)
		return nil
	case strings.EqualFold(p.Method, "AppCookie"):
		return fmt.Errorf("stickiness AppCookie: HAProxy 1.6 and newer refuse a configuration with appsession")
	case !strings.EqualFold(p.Method, "SourceBased"):
		return nil
	}

	l.Sticky, l.StickySize = stickyExpire, stickySize
	for k, v := range p.Params {
		var err error
		switch strings.ToLower(k) {
		case "expire":
			l.Sticky, err = parseDuration(v)
		case "tablesize":
			l.StickySize, err = parseScaled(v, map[byte]int{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30})
		}
		if err != nil {
			return fmt.Errorf("stickiness %s %q: %w", k, v, err)
		}
	}

	return nil
}

// parseDuration parses a duration such as 30m; d means days.
func parseDuration(s string) (time.Duration, error) {
	n, err := parseScaled(s, map[byte]int{'s': 1, 'm': 60, 'h': 3600, 'd': 86400})
	return time.Duration(n) * time.Second, err
}

func parseScaled(s string, units map[byte]int) (int, error) {
	if s == "" {
		return 0, fmt.Errorf("a number with a unit is needed")
	}
	unit, ok := units[s[len(s)-1]]
	n, err := strconv.Atoi(s[:len(s)-1])
	if !ok || err != nil || n < 1 {
		return 0, fmt.Errorf("a positive number with a unit is needed")
	}
	return n * unit, nil
}
