// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse parses the text of a fault:
//
//	COMMAND:KIND[:OPTION=VALUE[,OPTION=VALUE ...]]
//
// COMMAND is the name of a command or a pattern with *. KIND is one of error, cut-before, cut-after, delay,
// job-fails, job-never-ends, restart, throttled, maintenance, quota, capacity, router-refuses, router-loses,
// nodes-not-ready and api-unreachable. Every kind has the options nth, count, p (probability) and caller. In addition,
// error has code, cserrorcode and text, job-fails has code and text, and delay, restart and throttled have delay. text
// must be the last option, because its value may contain any character.
func Parse(s string) (Fault, error) {
	fail := func(format string, v ...any) (Fault, error) {
		return Fault{}, fmt.Errorf("fault %q: %s", s, fmt.Sprintf(format, v...))
	}
	parts := strings.SplitN(s, ":", 3)
	if len(parts) < 2 || parts[0] == "" {
		return fail("write it as COMMAND:KIND:OPTION=VALUE,... such as createLoadBalancerRule:job-fails:nth=3")
	}

	f := Fault{Command: strings.TrimSpace(parts[0])}
	if f.Command == "*" {
		f.Command = ""
	}

	var names []string
	for _, n := range faultKinds {
		names = append(names, n.name)
		if n.name == strings.TrimSpace(parts[1]) {
			f.Kind = n.kind
		}
	}

	if f.Kind == 0 {
		return fail("kind %q is not known; use one of %s", parts[1], strings.Join(names, ", "))
	}

	rest := ""
	if len(parts) == 3 {
		rest = parts[2]
	}

	for rest != "" {
		name, value, ok := strings.Cut(rest, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return fail("option %q has no value", rest)
		}
		rest = ""
		if name != "text" {
			value, rest, _ = strings.Cut(value, ",")
		}
		if err := f.set(name, strings.TrimSpace(value)); err != nil {
			return fail("%s", err)
		}
	}

	if err := f.Check(); err != nil {
		return fail("%s", err)
	}

	return f, nil
}

// set parses one option.
func (f *Fault) set(name, value string) error {
	number := func(into *int) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%s=%s is not a number from 1", name, value)
		}
		*into = n
		return nil
	}

	switch name {
	case "nth":
		return number(&f.Nth)
	case "count":
		return number(&f.Count)
	case "code":
		return number(&f.HTTPStatus)
	case "cserrorcode":
		return number(&f.CSErrorCode)
	case "p":
		p, err := strconv.ParseFloat(value, 64)
		if err != nil || p <= 0 || p > 1 {
			return fmt.Errorf("p=%s is not a probability above 0 and up to 1", value)
		}
		f.Probability = p
	case "delay":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("delay=%s is not a positive time such as 500ms or 2s", value)
		}
		f.Delay = d
	case "caller":
		f.Caller = value
	case "text":
		f.Text = value
	default:
		return fmt.Errorf("option %q is not known; use nth, count, p, caller, delay, code, cserrorcode or text", name)
	}

	return nil
}

// String returns the text of the fault in the format of ParseFault.
func (f Fault) String() string {
	command := f.Command
	if command == "" {
		command = "*"
	}

	var options []string
	add := func(name string, set bool, v any) {
		if set {
			options = append(options, fmt.Sprintf("%s=%v", name, v))
		}
	}

	add("nth", f.Nth > 0, f.Nth)
	add("count", f.Count > 0, f.Count)
	add("p", f.Probability > 0, f.Probability)
	add("caller", f.Caller != "", f.Caller)
	add("delay", f.Delay > 0, f.Delay)
	add("code", f.HTTPStatus > 0, f.HTTPStatus)
	add("cserrorcode", f.CSErrorCode > 0, f.CSErrorCode)
	add("text", f.Text != "", f.Text)
	s := command + ":" + f.Kind.String()
	if len(options) > 0 {
		s += ":" + strings.Join(options, ",")
	}

	return s
}
