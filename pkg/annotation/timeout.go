// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"regexp"
	"strings"
	"time"
)

// maxIdle bounds IdleTimeout: each idle connection is one of the few thousand that a virtual router can have.
const maxIdle = 24 * time.Hour

var duration = regexp.MustCompile(`^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$`)

// idleTimeout reads a duration of whole seconds.
func (p *parser) idleTimeout() time.Duration {
	value, set := p.svc.Annotations[IdleTimeout]
	if !set {
		return 0
	}
	text := strings.TrimSpace(value)
	d, err := time.ParseDuration(text)
	if err != nil || !duration.MatchString(text) || d < time.Second || d > maxIdle {
		p.refuse(IdleTimeout, value, "", allowed(IdleTimeout))
		return 0
	}
	return d
}

// optional reads a boolean; nil where the annotation is not set or wrong.
func (p *parser) optional(name string) *bool {
	if _, set := p.svc.Annotations[name]; !set {
		return nil
	}
	before := len(p.errs)
	b := p.boolean(name)
	if len(p.errs) > before {
		return nil
	}
	return &b
}
